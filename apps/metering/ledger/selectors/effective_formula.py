"""What of a roll-up counts as effective: by the formula its month was closed with, else by the present one.

The one place that reads a formula: the bill, `costs`, usage and the pictures all sum what is told here.
Roll-ups keep `effective` as max(SM, DRAM) and SM active beside it, so that each formula is an expression over
the same row. What a finding calls evaded is in none of them: its SM active is `evaded`, its time is hoarded.

    v1      max(SM, DRAM), or SM alone: the rest of what max(SM, DRAM) counts did something, is partly used
    v2      of SM alone: time with a DRAM figure and no SM figure is unknown, neither effective nor waste
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import BigIntegerField, Case, DateField, Expression, F, Func, Q, Sum, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Least

from apps.cluster.request_cache import memo
from apps.metering.ledger.rules.buckets import MILLION
from apps.metering.models import Statement
from apps.metering.specs import Formula
from apps.prepared import Prepared
from apps.quotas.budgets.rules import budget

JUDGED = ("effective", "partly", "idle", "seen_us")
"""The figures of a roll-up that a formula moves. By each of them effective and the causes sum to
`seen_us` x 1,000,000.
"""
_NEWEST = {"max-sm-dram": Formula.MAX, "sm": Formula.SM}
"""By the setting's words."""


@dataclass(frozen=True)
class ClosedMonth:
    """A tenant's closed month and what it was closed with."""

    tenant: UUID
    begins: datetime
    ends: datetime
    formula: Formula


def present() -> Formula:
    """What this installation counts as effective now; a closed month keeps the one it was closed with."""
    return _NEWEST[settings.CONFIG.effective_formula]


def closed(begins: datetime, ends: datetime) -> list[ClosedMonth]:
    """The closed months that lie in [begins, ends), in part or whole."""
    first, last = budget.month_of(begins), budget.month_of(ends)

    def read() -> list[ClosedMonth]:
        return [
            ClosedMonth(tenant, *budget.bounds(month), Formula.labelled(label))
            for tenant, month, label in _CLOSED(first, last)
        ]

    return [month for month in memo(("closed months", first, last), read) if month.begins < ends]


_CLOSED = Prepared(
    lambda first, last: Statement.objects.filter(month__gte=first, month__lte=last).values_list(
        "tenant_id", "month", "formula"
    ),
    DateField(),
    DateField(),
)


def judged(begins: datetime, ends: datetime) -> dict[str, Combinable]:
    """JUDGED as expressions over roll-ups of [begins, ends). RULE: a closed month of a tenant by the formula
    of its statement, all else by the present one. Months are those of UTC as days are: no roll-up is in two.
    """
    usual = present()
    kept = [month for month in closed(begins, ends) if month.formula is not usual]
    others = sorted({month.formula for month in kept})
    found = {}
    for name in JUDGED:
        whens = [When(_in(formula, kept), then=_by(formula, name)) for formula in others]
        plain = _by(usual, name)
        found[name] = Case(*whens, default=plain, output_field=BigIntegerField()) if whens else plain
    return found


def in_force(tenants: Iterable[UUID], begins: datetime, ends: datetime) -> set[Formula]:
    """All that something of these tenants in [begins, ends) is judged by."""
    months = closed(begins, ends)
    found: set[Formula] = set()
    for tenant in tenants:
        own = [month for month in months if month.tenant == tenant]
        found |= {month.formula for month in own}
        covered = sum((min(m.ends, ends) - max(m.begins, begins) for m in own), ends - ends)
        found |= set() if covered == ends - begins else {present()}
    return found or {present()}


class Whole(Func):
    """Division of integers without a rest, alike on both databases."""

    template = "(%(expressions)s)"
    arg_joiner = " / "
    output_field = BigIntegerField()


class _Total(Sum):
    """Given as the database gives it: to make ints of a page's thousands here is a second pass over them."""

    convert_value = staticmethod(Sum._convert_value_noop)  # type: ignore[attr-defined]


def sums(of: Mapping[str, Combinable]) -> dict[str, Expression]:
    """Sums of figures that are time x millionths, to be read by `summed`. SQLite sums in 64 bits and fails
    beyond, at some 100 days of busy devices: there each is made of two halves.
    """
    found: dict[str, Expression] = {}
    for name, what in of.items():
        if connection.vendor == "sqlite":
            found[f"high_{name}"] = _Total(Whole(what, Value(MILLION)))
            found[f"total_{name}"] = _Total(what % Value(MILLION))
        else:
            found[f"total_{name}"] = _Total(what)
    return found


def summed(row: Mapping[str, Any], name: str) -> int:
    """One of `sums`, exactly; 0 where nothing was summed."""
    return int(row[f"total_{name}"] or 0) + int(row.get(f"high_{name}") or 0) * MILLION


def summed_in_order(figures: Sequence[Any]) -> list[int]:
    """All of `sums` that a list of values ends with, exactly."""
    if connection.vendor == "sqlite":
        halves = zip(figures[::2], figures[1::2], strict=True)
        return [int(high or 0) * MILLION + int(rest or 0) for high, rest in halves]
    return [int(figure or 0) for figure in figures]


def _in(formula: Formula, months: Iterable[ClosedMonth]) -> Q:
    """The roll-ups of the months that were closed with it."""
    whose: dict[tuple[datetime, datetime], list[UUID]] = {}
    for month in months:
        if month.formula is formula:
            whose.setdefault((month.begins, month.ends), []).append(month.tenant)
    chosen = Q(pk__in=[])
    for (begins, ends), tenants in whose.items():
        chosen |= Q(starts_at__gte=begins, starts_at__lt=ends, tenant__in=tenants)
    return chosen


def _by(formula: Formula, name: str) -> Combinable:
    """One of JUDGED by a formula."""
    return _SINCE[formula].get(name, F(name))


def _since_sm_1() -> dict[str, Combinable]:
    effective = Least(F("sm_sum") - F("evaded"), F("effective"), output_field=BigIntegerField())
    return {"effective": effective, "partly": F("partly") + F("effective") - effective}


def _since_sm_2() -> dict[str, Combinable]:
    """What has no SM figure is in `seen_us`, `effective`, `partly` and `blind_idle`, and in nothing else."""
    idle = F("idle") - F("blind_idle")
    seen = F("sm_us") * Value(MILLION)
    effective = F("sm_sum") - F("evaded")
    partly = seen - effective - idle - F("hoarded") - F("zombie") - F("crashing") - F("oversized")
    return {"effective": effective, "partly": partly, "idle": idle, "seen_us": F("sm_us")}


_SINCE: Mapping[Formula, Mapping[str, Combinable]] = {
    Formula.MAX: {},
    Formula.SM_1: _since_sm_1(),
    Formula.SM: _since_sm_2(),
}
"""What each formula tells apart from what roll-ups keep."""
