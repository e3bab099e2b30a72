"""What the clock does for accounts: forgetting sessions that are over."""

from celery import shared_task
from django.utils import timezone

from apps.accounts import sessions


@shared_task(name="accounts.prune_sessions", ignore_result=True)  # type: ignore[untyped-decorator]
def prune_sessions() -> None:
    """Hourly."""
    sessions.prune(timezone.now())
