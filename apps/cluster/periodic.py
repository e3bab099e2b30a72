"""What the clock starts: forgetting objects that are long gone."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from apps.cluster.mirror.services import mirror_table

KEPT = timedelta(days=1)


@shared_task(name="cluster.prune_mirror")  # type: ignore[untyped-decorator]
def prune_mirror() -> int:
    """Hourly: drop tombstones older than a day; metering has read them by then."""
    return mirror_table.prune(timezone.now(), older_than=KEPT)
