"""How allocations, their balance and what they cost look in REST."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from django.conf import settings

from apps.metering.allocations.selectors.devices_held import Line
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.selectors.costs import CostLine
from apps.metering.billing.services.corrections import Moved
from apps.metering.specs import Attribution, Confidence, Origin
from apps.web.shapes import amounts
from apps.web.shapes.bodies import Id, Money
from apps.web.shapes.typed import keywords

Exact = Annotated[str, keywords(format="decimal")]
"""A figure that is never rounded to a float."""
Span = TypedDict("Span", {"from": datetime, "to": datetime})
Held = TypedDict(
    "Held",
    {
        "class": Literal["tenant"],
        "from": datetime,
        "to": Annotated[datetime | None, "Null while it is held."],
    },
)
Observed = TypedDict("Observed", {"from": datetime, "to": datetime | None})


class AllocationBody(Held):
    """Who held a device from when to when, as it counts."""

    id: Id
    origin: Origin
    tenant: Annotated[str, "The tenant's slug."]
    workload: Annotated[Id | None, "Null of what was made with kubectl."]
    node: str
    device: str
    offer: Annotated[str | None, "Null where no offer is like the device."]
    share: Annotated[str, "The part of the physical GPU, such as 1/7; of cores 0/1."]
    units: Annotated[int, "How many cores, of an offer without a GPU; 1 of a device."]
    device_seconds: Annotated[Exact, "Of a whole GPU; an open one up to now."]
    attributed_by: Attribution
    confidence: Confidence


class ObservedAllocationBody(Observed):
    """As it was observed, without corrections."""


class CorrectionBody(Observed):
    """One correction; the last one counts."""

    reason: str
    made_by: str
    made_at: datetime


class CorrectableBody(AllocationBody):
    """An allocation with its history."""

    observed: ObservedAllocationBody
    corrections: list[CorrectionBody]


class CorrectionEffectBody(TypedDict):
    """What a correction changes of one month's charge."""

    month: Annotated[str, "Such as 2026-10."]
    statement: Annotated[str | None, "Its number where the month is closed: the next one has the difference."]
    before: Money
    after: Money
    difference: Money


class CorrectedBody(CorrectableBody):
    """An allocation as it counts now, and what that changes."""

    effect: list[CorrectionEffectBody]


class WasteByCauseBody(TypedDict):
    """Waste by cause."""

    hoarded: Annotated[Money, "Recoverable: hoarders, evasions, what was forgotten."]
    zombie: Annotated[Money, "Recoverable."]
    crashing: Annotated[Money, "Recoverable: crash loops."]
    oversized: Annotated[Money, "Recoverable: the part that a smaller offer would not take."]
    idle: Annotated[Money, "Inefficiency: pauses of what is used."]
    partly: Annotated[Money, "Inefficiency: devices used in part."]


class CostBody(TypedDict):
    """Two prices: allocated - refunded = charged = effective + waste + unknown."""

    gpu_hours: Exact
    allocated: Money
    refunded: Money
    charged: Money
    effective: Money
    waste: Annotated[Money, "Seen, and no work: recoverable + inefficiency."]
    recoverable: Annotated[Money, "Waste that somebody can end, because a finding says so."]
    inefficiency: Annotated[Money, "The rest of the waste, inside work that is wanted."]
    waste_by_cause: WasteByCauseBody
    unknown: Annotated[Money, "Not measured, which is not the same as wasted."]
    formula: Annotated[str, "What counts as effective."]


class GroupedCostBody(CostBody):
    """The costs of one group; the member that `group_by` names says of which."""

    tenant: NotRequired[str | None]
    department: NotRequired[str | None]
    workload: NotRequired[Id | None]
    offer: NotRequired[str | None]
    member: NotRequired[str | None]


class CostsBody(Span):
    """What a period cost, by group, and in all."""

    formula: str
    items: list[GroupedCostBody]
    total: CostBody


class BalanceBody(Span):
    """The fleet's time, shared out: all of it is a tenant's, idle, or unattributed."""

    device_seconds: Annotated[Exact, "What was there, by facts of hardware alone."]
    tenants: Exact
    idle: Exact
    idle_by_reason: Mapping[str, Exact]
    unattributed: Exact
    difference: Annotated[Exact, "0 where it balances."]


def money(amount: Decimal) -> Money:
    """An amount in the installation's currency."""
    return amounts.money(amount, settings.CONFIG.currency)


def cost_body(line: CostLine) -> CostBody:
    """Two prices: allocated - refunded = charged = effective + waste + unknown. Unmeasured is unknown, which
    is not the same as wasted.
    """
    return {
        "gpu_hours": f"{line.gpu_hours:f}",
        "allocated": money(line.allocated),
        "refunded": money(line.refunded),
        "charged": money(line.charged),
        "effective": money(line.effective),
        "waste": money(line.waste),
        "recoverable": money(line.recoverable),
        "inefficiency": money(line.inefficiency),
        "waste_by_cause": causes_body(line.causes, settings.CONFIG.currency),
        "unknown": money(line.unknown),
        "formula": line.formula,
    }


def causes_body(causes: Mapping[str, Decimal], currency: str) -> WasteByCauseBody:
    """Each of `effective_split.CAUSES`, what is missing as nothing."""
    found = {cause: amounts.money(causes.get(cause, Decimal(0)), currency) for cause in CAUSES}
    return cast("WasteByCauseBody", found)


def line_body(line: Line, now: datetime) -> AllocationBody:
    """One allocation of the list."""
    row = line.row
    return {
        "id": str(row.pk),
        "class": "tenant",
        "origin": line.origin,
        "tenant": row.tenant.slug,
        "workload": str(row.workload_id) if row.workload_id else None,
        "node": row.node,
        "device": row.device_uuid or row.device,
        "offer": row.offer.slug if row.offer else None,
        "share": f"{row.share_numerator}/{row.share_denominator}",
        "units": row.units,
        "from": line.interval[0],
        "to": line.interval[1],
        "device_seconds": f"{pricing.amount(line.gpu_seconds(now)):f}",
        "attributed_by": line.attribution,
        "confidence": line.confidence,
    }


def allocation_body(line: Line, now: datetime) -> CorrectableBody:
    """One allocation with its history; what was made with kubectl is never corrected."""
    row = line.row
    told: list[CorrectionBody] = [
        {"from": each.started_at, "to": each.ended_at, "reason": each.reason, "made_by": each.made_by,
         "made_at": each.made_at}
        for each in row.corrections.order_by("pk")
    ]  # fmt: skip
    observed: ObservedAllocationBody = {"from": row.started_at, "to": row.ended_at}
    return {**line_body(line, now), "observed": observed, "corrections": told}


def effect_body(each: Moved) -> CorrectionEffectBody:
    """One month that a correction changes."""
    return {
        "month": f"{each.month:%Y-%m}",
        "statement": each.number or None,
        "before": money(each.before),
        "after": money(each.after),
        "difference": money(each.difference),
    }
