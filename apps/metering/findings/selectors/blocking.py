"""What waits for what a workload holds. Reads only; answers counts: who waits is no one else's business."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from apps.metering.models import Allocation
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import spec_of
from apps.workloads.specs import Phase

MOST = 500
_WAITS = Q(phase=Phase.PENDING, suspended=False, held_at=None, deleting_at=None)


@dataclass(frozen=True)
class Blocked:
    """How many workloads wait for devices of an offer, and for how many devices."""

    count: int = 0
    devices: int = 0

    def as_json(self) -> dict[str, int]:
        """As a finding keeps it."""
        return {"count": self.count, "devices": self.devices}


def blocked_by(row: Workload | Allocation) -> Blocked:
    """RULE: what asked to run on the same offer of the same cluster and waits, unless it is held by hand."""
    if row.offer_id is None:
        return Blocked()
    waiting = _beside(row).filter(_WAITS)
    return _counted(waiting.order_by("asked_at")[:MOST])


def blocked_by_all(rows: Iterable[Allocation]) -> Blocked:
    """The same of devices of different offers, one of each."""
    found = [blocked_by(row) for row in rows]
    return Blocked(sum(each.count for each in found), sum(each.devices for each in found))


def blocked_at(row: Workload, at: datetime) -> Blocked:
    """As `blocked_by`, at a moment of the past.

    RULE: what had asked for the same offer and started then or later, or waits to this day.
    """
    asked = _beside(row).filter(asked_at__lt=at)
    return _counted(asked.filter(Q(started_at__gte=at) | _WAITS).order_by("asked_at")[:MOST])


def _beside(row: Workload | Allocation) -> QuerySet[Workload]:
    others = Workload.objects.filter(cluster=row.cluster_id, offer=row.offer_id, deleted_at=None)
    return others.exclude(pk=row.pk)


def _counted(rows: Iterable[Workload]) -> Blocked:
    found = [spec_of(each).devices for each in rows]
    return Blocked(len(found), sum(found))
