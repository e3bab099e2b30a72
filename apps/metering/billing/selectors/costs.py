"""What was held and what it cost, for those who may see it. Reads only; the arithmetic is in `costing`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from uuid import UUID

from django.db.models import QuerySet

from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import CAUSES, INEFFICIENCY, RECOVERABLE, Exact
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.billing.rules.two_prices import sum_of
from apps.metering.billing.selectors import charged_intervals, charges
from apps.metering.billing.selectors.charged_intervals import PriceKey, WholeTenants
from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import Allocation
from apps.metering.specs import Formula
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.words import Word
from apps.workloads.models import Workload


class Group(Word):
    """By what costs are summed."""

    TENANT = "tenant", "Tenant"
    DEPARTMENT = "department", "Department"
    WORKLOAD = "workload", "Workload"
    OFFER = "offer", "Offer"
    MEMBER = "member", "Member"


BY_WORKLOAD = frozenset({Group.WORKLOAD, Group.MEMBER})


@dataclass(frozen=True)
class CostLine:
    """One group's sum: `charged = allocated - refunded = effective + waste + unknown`, exactly.

    `refunded` is what preemption gives back, `refunded_hours` its GPU-hours. `causes` is waste by why, as
    `effective_split` names it. Without telemetry what is charged is unknown: neither effective nor waste.
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
        return "; ".join(sorted(each.label for each in self.formulas or {effective_formula.present()}))

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.allocated - self.refunded

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return sum(self.causes.values(), Decimal(0))

    @property
    def recoverable(self) -> Decimal:
        """Waste that somebody can end, because a finding says so."""
        return sum_of(self.causes, RECOVERABLE)

    @property
    def inefficiency(self) -> Decimal:
        """The rest of the waste, inside work that is wanted."""
        return sum_of(self.causes, INEFFICIENCY)

    @property
    def unknown(self) -> Decimal:
        """What of it nobody measured."""
        return self.charged - self.effective - self.waste


def prices_of(row: Allocation) -> list[PricePeriod]:
    """What the tenant that holds it pays for it, from when on."""
    offer = row.offer_id or charged_intervals.NO_OFFER
    key = PriceKey(row.tenant_id, offer, row.capacity, units=row.priced)
    return charged_intervals.periods_of([key])[key]


def costs(
    of: QuerySet[Allocation] | WholeTenants,
    group: Group,
    *,
    begins: datetime,
    ends: datetime,
    now: datetime,
) -> list[CostLine]:
    """The costs inside [begins, ends) by group, dearest first. RULE: sums are exact, each is rounded once.

    What was made with kubectl is of no workload, so its key is empty there, and where no offer is like it.
    """
    exact = charges.charges(of, begins, ends, now=now, by_workload=group in BY_WORKLOAD)
    names = _names(group, exact)
    sums: dict[str, list[Exact]] = defaultdict(list)
    whose: dict[str, set[UUID]] = defaultdict(set)
    for key, found in exact.items():
        name = names(key)
        sums[name].append(found)
        whose[name].add(key.tenant)
    # Hundreds of workloads are of few tenants.
    formulas = cache(lambda tenants: frozenset(effective_formula.in_force(tenants, begins, ends)))
    lines = [
        line_of(key, found, formulas(frozenset(whose[key])))
        for key, found in zip(sums, map(effective_split.together, sums.values()), strict=True)
        if found.seconds or found.allocated
    ]
    return sorted(lines, key=lambda line: (-line.allocated, line.key))


def line_of(key: str, exact: Exact, formulas: frozenset[Formula] = frozenset()) -> CostLine:
    """A sum to 8 decimals; effective, waste by cause and unknown share out all that is charged."""
    allocated, refunded = pricing.amount(exact.allocated), pricing.amount(exact.refunded)
    parts = exact.parts()
    units = int((allocated - refunded).scaleb(pricing.PLACES))
    effective, *causes, _ = pricing.apportion(list(parts.values()), units, pricing.PLACES)
    return CostLine(
        key=key,
        gpu_hours=pricing.amount(exact.seconds / pricing.HOUR),
        allocated=allocated,
        refunded=refunded,
        refunded_hours=pricing.amount(exact.refunded_seconds / pricing.HOUR),
        effective=effective,
        causes=dict(zip(CAUSES, causes, strict=True)),
        formulas=formulas,
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
