"""What services and the watch wake: a row's id in, one reconcile."""

from celery import shared_task

from apps.quotas.allowances.services import queue_reconcile
from apps.quotas.catalogue.services import offer_reconcile


@shared_task(name="quotas.reconcile_flavor")  # type: ignore[untyped-decorator]
def reconcile_flavor(pk: str) -> None:
    """Bring one flavor into its cluster."""
    offer_reconcile.reconcile_flavor(pk)


@shared_task(name="quotas.reconcile_offer")  # type: ignore[untyped-decorator]
def reconcile_offer(pk: str) -> None:
    """Bring one offer into its cluster."""
    offer_reconcile.reconcile_offer(pk)


@shared_task(name="quotas.reconcile_queue")  # type: ignore[untyped-decorator]
def reconcile_queue(pk: str) -> None:
    """Bring one tenant's queue into its cluster; the id is the queue's or its tenant's."""
    queue_reconcile.reconcile_queue(pk)
