"""What services and the watch wake: a row's id in, one reconcile, or those of a burst."""

from celery import shared_task

from apps.cluster.reconciling.services import burst
from apps.workloads.lifecycle.services import reconcile
from apps.workloads.models import Workload


@shared_task(name="workloads.reconcile")  # type: ignore[untyped-decorator]
def reconcile_workload(pk: str) -> None:
    """Bring one workload into its cluster, unless an earlier hint already did, and others that wait."""
    burst.follow(Workload, pk, reconcile.reconcile, owner="workload")
