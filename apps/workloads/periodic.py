"""What the clock starts: the sweep that finds every row no hint has reached, the end of leases, estimates."""

from celery import shared_task
from django.utils import timezone

from apps.cluster.reconciling.services import sweep
from apps.workloads.lifecycle.services import log_keeping, verbs, working_hours
from apps.workloads.models import Workload
from apps.workloads.nodes.services import node_drain
from apps.workloads.opening.services import asking
from apps.workloads.tenants.services import leaving
from apps.workloads.waiting.services import announcing, predicting


@shared_task(name="workloads.sweep")  # type: ignore[untyped-decorator]
def sweep_workloads() -> None:
    """End the work of tenants on their way out, and hint the workloads that are due."""
    leaving.delete_left_behind(now=timezone.now())
    sweep.hint_due(Workload, "workload", timezone.now())


@shared_task(name="workloads.expire")  # type: ignore[untyped-decorator]
def expire_workloads() -> None:
    """Stop workloads whose lease has ended."""
    verbs.stop_expired(now=timezone.now())


@shared_task(name="workloads.keep_hours")  # type: ignore[untyped-decorator]
def keep_hours() -> None:
    """Stop and start notebooks at the ends and beginnings of their working hours."""
    working_hours.keep_due(now=timezone.now())


@shared_task(name="workloads.foresee")  # type: ignore[untyped-decorator]
def foresee_starts() -> None:
    """Judge past estimates of starts, and make new ones."""
    predicting.settle(now=timezone.now())
    predicting.predict(now=timezone.now())


@shared_task(name="workloads.tell_waits")  # type: ignore[untyped-decorator]
def tell_waits() -> None:
    """Tell people once why their work waits, where it concerns them."""
    announcing.tell_waits(now=timezone.now())


@shared_task(name="workloads.clear_nodes")  # type: ignore[untyped-decorator]
def clear_nodes() -> None:
    """Stop the work that is left on nodes that change hands, once its notice is over."""
    node_drain.stop_due(now=timezone.now())


@shared_task(name="workloads.ask_ides")  # type: ignore[untyped-decorator]
def ask_ides() -> None:
    """Ask the IDEs of notebooks that run what they do."""
    asking.ask_due(now=timezone.now())


@shared_task(name="workloads.prune_logs")  # type: ignore[untyped-decorator]
def prune_logs() -> int:
    """Hourly: forget kept logs that are too old, and those of deleted workloads."""
    return log_keeping.prune(timezone.now())
