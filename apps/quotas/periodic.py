"""What the clock starts: the sweep that finds every row no hint has reached, and what comes with time."""

from uuid import UUID

from celery import shared_task
from django.db.models import F, QuerySet
from django.utils import timezone

from apps.cluster.reconciling.services import sweep, wake
from apps.prepared import Prepared
from apps.quotas.allowances.services import granting, pools
from apps.quotas.budgets.services import budgeting
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.quotas.requests.services import deciding


@shared_task(name="quotas.sweep")  # type: ignore[untyped-decorator]
def sweep_quotas() -> None:
    """Hint the flavors, offers and queues that are due, and queues that have not followed their tenant."""
    now = timezone.now()
    sweep.hint_due(Flavor, "flavor", now)
    sweep.hint_due(Offer, "offer", now)
    sweep.hint_due(TenantQueue, "queue", now)
    for pk in _BEHIND():
        wake.hint("queue", pk)


def _behind() -> QuerySet[TenantQueue, UUID]:
    rows = TenantQueue.objects.filter(deleted_at=None, attempts=0)
    return rows.exclude(tenant_generation=F("tenant__generation")).values_list("pk", flat=True)


_BEHIND = Prepared(_behind)


@shared_task(name="quotas.clock")  # type: ignore[untyped-decorator]
def follow_the_clock() -> None:
    """What only time brings about: ends announced, requests grown old, a new month for spent budgets."""
    now = timezone.now()
    granting.warn_of_ends(now)
    deciding.remind(now)
    budgeting.judge_all(now)


@shared_task(name="quotas.settle_pools")  # type: ignore[untyped-decorator]
def settle_pools() -> None:
    """Bring the quota of tenants with nodes of their own to what those nodes hold."""
    pools.settle_all(now=timezone.now())
