"""What services and the watch wake: a row's id in, one reconcile."""

from celery import shared_task

from apps.cluster.reconciling.services import sweep
from apps.workloads.lifecycle.services import reconcile
from apps.workloads.models import Workload


@shared_task(name="workloads.reconcile")  # type: ignore[untyped-decorator]
def reconcile_workload(pk: str) -> None:
    """Bring one workload into its cluster, unless an earlier hint already did."""
    if sweep.is_due(Workload, pk):
        reconcile.reconcile(pk)
