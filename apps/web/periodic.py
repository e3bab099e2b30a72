"""What HTTP does by the clock: forgetting Idempotency-Keys that are older than a day."""

from celery import shared_task
from django.utils import timezone

from apps.web.requests import kept_keys


@shared_task(name="web.prune_idempotency_keys", ignore_result=True)  # type: ignore[untyped-decorator]
def prune_idempotency_keys() -> None:
    """Hourly."""
    kept_keys.prune(timezone.now())
