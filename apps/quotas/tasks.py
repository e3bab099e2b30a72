"""What services and the watch wake: a row's id in, one reconcile."""

from celery import shared_task

from apps.quotas import reconcile


@shared_task(name="quotas.reconcile_flavor")  # type: ignore[untyped-decorator]
def reconcile_flavor(pk: str) -> None:
    """Bring one flavor into its cluster."""
    reconcile.reconcile_flavor(pk)


@shared_task(name="quotas.reconcile_offer")  # type: ignore[untyped-decorator]
def reconcile_offer(pk: str) -> None:
    """Bring one offer into its cluster."""
    reconcile.reconcile_offer(pk)


@shared_task(name="quotas.reconcile_queue")  # type: ignore[untyped-decorator]
def reconcile_queue(pk: str) -> None:
    """Bring one tenant's queue into its cluster; the id is the queue's or its tenant's."""
    reconcile.reconcile_queue(pk)
