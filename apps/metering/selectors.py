"""What was held and what it cost, for those who may see it. Reads only; the arithmetic is in `costing`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering import charges, costing, formulas, holdings, shares
from apps.metering.costing import Interval, PricePeriod
from apps.metering.holdings import PriceKey
from apps.metering.models import Allocation, Correction, TelemetryIssue
from apps.metering.shares import CAUSES, Exact
from apps.metering.specs import Attribution, Confidence, Formula, Origin
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by
from apps.web.lookups import by_id
from apps.words import Word
from apps.workloads.models import Workload


class Group(Word):
    """By what costs are summed."""

    TENANT = "tenant", "Tenant"
    DEPARTMENT = "department", "Department"
    WORKLOAD = "workload", "Workload"
    OFFER = "offer", "Offer"
    MEMBER = "member", "Member"


PLUGIN_MARK = "#"
"""In the ledger's name of a device that a device plugin handed out."""
BY_WORKLOAD = frozenset({Group.WORKLOAD, Group.MEMBER})


@dataclass(frozen=True)
class CostLine:
    """One group's sum: `charged = allocated - refunded = effective + waste + unknown`, exactly.

    `refunded` is what preemption gives back, `refunded_hours` its GPU-hours. `causes` is waste by why: idle,
    partly, hoarded, zombie. Without telemetry what is charged is unknown: neither effective nor waste.
    `formulas` is all that said what is effective: several where months were closed with others.
    """

    key: str
    gpu_hours: Decimal
    allocated: Decimal
    refunded: Decimal = Decimal(0)
    refunded_hours: Decimal = Decimal(0)
    effective: Decimal = Decimal(0)
    causes: Mapping[str, Decimal] = field(default_factory=dict)
    formulas: frozenset[Formula] = frozenset()

    @property
    def formula(self) -> str:
        """What is counted as effective: by each closed month's own formula, else by the present one."""
        return "; ".join(sorted(each.label for each in self.formulas or {formulas.present()}))

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.allocated - self.refunded

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return sum(self.causes.values(), Decimal(0))

    @property
    def unknown(self) -> Decimal:
        """What of it nobody measured."""
        return self.charged - self.effective - self.waste


def allocations_for(actor: Actor) -> QuerySet[Allocation]:
    """The allocations of the tenants an actor sees, those of deleted workloads included."""
    found = Allocation.objects.filter(tenant__in=seen_by(actor))
    return found.select_related("tenant__department", "workload__tenant", "offer")


def allocation_for(actor: Actor, pk: str | UUID) -> Allocation:
    """One allocation by id, if the actor sees its tenant; raises NotFound."""
    return by_id(allocations_for(actor), pk)


def issues_for(actor: Actor) -> QuerySet[TelemetryIssue]:
    """What was ever wrong with telemetry. It is of clusters, so for those who see the whole fleet; raises
    NotFound for everybody else, to whom an empty list would say that all is well.
    """
    if not actor.sees_everything:
        raise NotFound
    return TelemetryIssue.objects.select_related("cluster")


def between(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> QuerySet[Allocation]:
    """Those that overlap [begins, ends), by their newest correction where there is one."""
    newest = Correction.objects.filter(allocation=OuterRef("pk")).order_by("-pk")
    corrected = rows.filter(pk__in=Correction.objects.values("allocation")).annotate(
        began=Subquery(newest.values("started_at")[:1]),
        over=Coalesce(Subquery(newest.values("ended_at")[:1]), "ended_at"),
    )
    moved = corrected.filter(began__lt=ends).filter(Q(over=None) | Q(over__gt=begins))
    plain = Q(started_at__lt=ends) & (Q(ended_at=None) | Q(ended_at__gt=begins))
    plain &= ~Q(pk__in=Correction.objects.values("allocation"))
    return rows.filter(plain | Q(pk__in=moved.values("pk"))).prefetch_related("corrections")


def interval_of(row: Allocation, now: datetime) -> Interval:
    """The interval, by the newest correction; an open one up to now. Prefetch `corrections`."""
    started_at, ended_at = row.interval
    return Interval(started_at, max(started_at, ended_at or now))


def prices_of(row: Allocation) -> list[PricePeriod]:
    """What the tenant that holds it pays for it, from when on."""
    key = PriceKey(row.tenant_id, row.offer_id or holdings.NO_OFFER, row.capacity)
    return holdings.periods_of([key])[key]


def attribution(row: Allocation) -> Attribution:
    """What named the device: the claim that Kubernetes allocated, or the kubelet by its device plugin."""
    is_plugin = row.offer is not None and row.offer.mechanism == Mechanism.DEVICE_PLUGIN
    return Attribution.DEVICE_PLUGIN if is_plugin or PLUGIN_MARK in row.device else Attribution.CLAIM


def confidence(row: Allocation) -> Confidence:
    """RULE: of a GPU that several share, what each did is not known; a device without a UUID cannot be joined
    with telemetry; a MIG slice and a whole GPU are their holder's alone.
    """
    if row.origin == Origin.KUBECTL or row.offer is None:
        return _confidence_by_device(row)
    mode = SharingMode(row.offer.sharing_mode)
    if mode not in (SharingMode.EXCLUSIVE, SharingMode.MIG) and row.share_denominator > 1:
        return Confidence.SHARED_SPLIT
    if not row.device_uuid:
        return Confidence.UNKNOWN
    return Confidence.MIG if mode is SharingMode.MIG else Confidence.EXCLUSIVE


def _confidence_by_device(row: Allocation) -> Confidence:
    """Of what was made with kubectl the device alone tells: a claim names a whole GPU or a slice; a device
    plugin says not which GPU it gave, and one of several replicas is shared.
    """
    if PLUGIN_MARK not in row.device:
        return Confidence.MIG if row.share_numerator < row.share_denominator else Confidence.EXCLUSIVE
    is_slice = "/mig-" in row.gpu
    return Confidence.SHARED_SPLIT if row.share_denominator > 1 and not is_slice else Confidence.UNKNOWN


def costs(
    rows: QuerySet[Allocation],
    group: Group,
    *,
    begins: datetime,
    ends: datetime,
    now: datetime,
) -> list[CostLine]:
    """The costs inside [begins, ends) by group, dearest first. RULE: sums are exact, each is rounded once.

    What was made with kubectl is of no workload, so its key is empty there, and where no offer is like it.
    """
    exact = charges.charges(rows, begins, ends, now=now, by_workload=group in BY_WORKLOAD)
    names = _names(group, exact)
    sums: dict[str, list[Exact]] = defaultdict(list)
    whose: dict[str, set[UUID]] = defaultdict(set)
    for key, found in exact.items():
        sums[names(key)].append(found)
        whose[names(key)].add(key.tenant)
    lines = [
        replace(line_of(key, found), formulas=frozenset(formulas.in_force(whose[key], begins, ends)))
        for key, found in zip(sums, map(shares.together, sums.values()), strict=True)
        if found.seconds or found.allocated
    ]
    return sorted(lines, key=lambda line: (-line.allocated, line.key))


def line_of(key: str, exact: Exact) -> CostLine:
    """A sum to 8 decimals; effective, waste by cause and unknown share out all that is charged."""
    allocated, refunded = costing.amount(exact.allocated), costing.amount(exact.refunded)
    parts = exact.parts()
    units = int((allocated - refunded).scaleb(costing.PLACES))
    effective, *causes, _ = costing.apportion(list(parts.values()), units, costing.PLACES)
    return CostLine(
        key=key,
        gpu_hours=costing.amount(exact.seconds / costing.HOUR),
        allocated=allocated,
        refunded=refunded,
        refunded_hours=costing.amount(exact.refunded_seconds / costing.HOUR),
        effective=effective,
        causes=dict(zip(CAUSES, causes, strict=True)),
    )


def total_of(lines: Iterable[CostLine]) -> CostLine:
    """The sum of lines as they are shown, so that a reader can add them up."""
    found = CostLine("", Decimal(0), Decimal(0))
    for line in lines:
        causes = {c: found.causes.get(c, Decimal(0)) + line.causes.get(c, Decimal(0)) for c in CAUSES}
        found = CostLine(
            key="",
            gpu_hours=found.gpu_hours + line.gpu_hours,
            allocated=found.allocated + line.allocated,
            refunded=found.refunded + line.refunded,
            refunded_hours=found.refunded_hours + line.refunded_hours,
            effective=found.effective + line.effective,
            causes=causes,
            formulas=found.formulas | line.formulas,
        )
    return found


def _names(group: Group, keys: Iterable[PriceKey]) -> Callable[[PriceKey], str]:
    """What a key's sums are added to, in the words of the group."""
    if group is Group.WORKLOAD:
        return lambda key: str(key.workload or "")
    if group is Group.MEMBER:
        works = Workload.objects.filter(pk__in={key.workload for key in keys if key.workload})
        owners: dict[UUID | None, str] = dict(works.values_list("pk", "owner__username"))
        return lambda key: owners.get(key.workload, "")
    if group is Group.OFFER:
        offers = dict(Offer.objects.filter(pk__in={key.offer for key in keys}).values_list("pk", "slug"))
        return lambda key: offers.get(key.offer, "")
    column = "slug" if group is Group.TENANT else "department__slug"
    rows = Tenant.objects.filter(pk__in={key.tenant for key in keys})
    tenants = dict(rows.values_list("pk", column))
    return lambda key: tenants[key.tenant]
