"""All that a tenant is charged devices for, as one list: allocations of workloads and work made with kubectl.

Reads only; a part of the selectors' floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from apps.accounts.specs import Actor
from apps.errors import Conflict, NotFound
from apps.metering import costing, selectors
from apps.metering.costing import Interval
from apps.metering.ledger_models import KubectlHolding
from apps.metering.models import Allocation
from apps.metering.specs import Attribution, Confidence, Origin
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload

SORTS = ("started_at", "created_at")
"""By what the list of both may be sorted: `started_at` as observed, which no correction moves."""
PLUGIN_MARK = "#"
"""In the ledger's name of a device that a device plugin handed out."""


@dataclass(frozen=True)
class Line:
    """One device held in an interval, whatever made the work. `workload` None: made with kubectl; `offer`
    None: no offer is like the device. `interval` is what counts, by the newest correction.
    """

    row: Allocation | KubectlHolding
    origin: Origin
    tenant: Tenant
    workload: Workload | None
    offer: Offer | None
    device_uuid: str
    interval: tuple[datetime, datetime | None]
    attribution: Attribution
    confidence: Confidence
    corrections: int = 0

    def held(self, now: datetime) -> Interval:
        """What counts, an open one up to now."""
        begins, ends = self.interval
        return Interval(begins, max(begins, ends or now))

    def gpu_seconds(self, now: datetime) -> Fraction:
        """Time x the part of the physical GPU."""
        held = self.held(now)
        share = Fraction(self.row.share_numerator, self.row.share_denominator)
        return costing.seconds_of(held.ended_at - held.started_at) * share

    def device_seconds(self, begins: datetime, ends: datetime, now: datetime) -> Fraction:
        """Time of the device inside [begins, ends): what a line of the bill counts."""
        part = costing.clipped(self.held(now), begins, ends)
        return costing.seconds_of(part.ended_at - part.started_at) if part else Fraction(0)


def between(
    rows: QuerySet[Allocation], others: QuerySet[KubectlHolding], begins: datetime, ends: datetime
) -> list[QuerySet[Any]]:
    """Both kinds that overlap [begins, ends), each with the columns of SORTS. What was made with kubectl was
    written when it was seen, which is when it begins.
    """
    overlaps = Q(started_at__lt=ends) & (Q(ended_at=None) | Q(ended_at__gt=begins))
    made = others.filter(overlaps).annotate(created_at=F("started_at"))
    return [selectors.between(rows, begins, ends), made.select_related("tenant__department", "offer")]


def only(sources: Sequence[QuerySet[Any]], origins: Sequence[str] | None) -> list[QuerySet[Any]]:
    """Those of some origins; None: of all."""
    kept = set(Origin) if origins is None else set(origins)
    return [rows for rows, origin in zip(sources, Origin, strict=True) if origin in kept]


def line_of(row: Allocation | KubectlHolding) -> Line:
    """A row of either table; prefetch `corrections` of an allocation."""
    if isinstance(row, KubectlHolding):
        interval = (row.started_at, row.ended_at and max(row.started_at, row.ended_at))
        how = Attribution.DEVICE_PLUGIN if PLUGIN_MARK in row.device else Attribution.CLAIM
        return Line(
            row, Origin.KUBECTL, row.tenant, None, row.offer, row.device_uuid, interval, how, confidence(row)
        )
    return Line(
        row, Origin.ALLOTMENT, row.workload.tenant, row.workload, row.offer, row.device_uuid, row.interval,
        selectors.attribution(row), selectors.confidence(row), len(row.corrections.all()),
    )  # fmt: skip


def confidence(row: KubectlHolding) -> Confidence:
    """RULE: as of an allocation, by the device alone: a claim names a whole GPU or a slice; a device plugin
    says not which GPU it gave, and one of several replicas is shared.
    """
    if PLUGIN_MARK not in row.device:
        return Confidence.MIG if row.share_numerator < row.share_denominator else Confidence.EXCLUSIVE
    is_slice = "/mig-" in row.gpu
    return Confidence.SHARED_SPLIT if row.share_denominator > 1 and not is_slice else Confidence.UNKNOWN


def by_id(actor: Actor, pk: str) -> Line:
    """One of either kind, if the actor sees its tenant; raises NotFound."""
    made = _made_with_kubectl(actor, pk)
    return line_of(made or selectors.allocation_for(actor, pk))


def correctable(actor: Actor, pk: str) -> Allocation:
    """An allocation of a workload; raises NotFound, and Conflict for what was made with kubectl."""
    if _made_with_kubectl(actor, pk):
        words = "It was made with kubectl: it counts as it was observed."
        raise Conflict(words, hint="Only allocations of workloads are corrected.")
    return selectors.allocation_for(actor, pk)


def _made_with_kubectl(actor: Actor, pk: str) -> KubectlHolding | None:
    try:
        rows = selectors.kubectl_for(actor).filter(pk=UUID(str(pk)))
    except ValueError:
        raise NotFound from None
    return rows.select_related("tenant__department", "offer").first()
