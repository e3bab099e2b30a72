"""What the clock starts: forgetting objects that are long gone, and looking for what was changed by hand."""

from celery import shared_task
from django.utils import timezone

from apps.cluster.mirror.selectors.inventory import KEPT
from apps.cluster.mirror.services import mirror_table
from apps.cluster.reconciling.services import drift_book
from apps.cluster.watching.services import drift_checks


@shared_task(name="cluster.prune_mirror")  # type: ignore[untyped-decorator]
def prune_mirror() -> int:
    """Hourly: drop tombstones older than a day, which metering has read by then, and old lines of drift."""
    drift_book.prune(now=timezone.now())
    return mirror_table.prune(timezone.now(), older_than=KEPT)


@shared_task(name="cluster.sweep")  # type: ignore[untyped-decorator]
def sweep_drift() -> None:
    """Bring the book of drift in line with the mirror, and start the checks that are due."""
    drift_book.settle(now=timezone.now())
    drift_checks.hint_due(now=timezone.now())


# Acknowledged first: a large fleet takes longer than the broker waits for an answer.
@shared_task(
    name="cluster.check_drift", acks_late=False, soft_time_limit=540, time_limit=600, ignore_result=True
)  # type: ignore[untyped-decorator]
def check_drift(pk: str) -> None:
    """Compare one cluster."""
    drift_checks.run(pk)
