"""Months, limits and marks of a budget, and why a tenant's queue is held. Pure: figures in, words out.

Knows nothing of where spend comes from (`apps.metering`) nor of what holding does (`manifests`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from apps.quotas.specs import BudgetUnit, HoldReason
from apps.tenants.specs import Suspend

MARKS = (50, 80, 100)
"""Percent of the soft limit at which people are told, each once a month."""
PLATFORM = "a platform engineer"
_STARTS = "New work starts"
RAISERS = f"a manager of the department or {PLATFORM}"


@dataclass(frozen=True)
class Limits:
    """Amounts per month in `unit`; None is no limit."""

    unit: BudgetUnit
    soft: Decimal | None
    hard: Decimal | None


@dataclass(frozen=True)
class Exhausted:
    """A budget whose hard limit is reached: `whose` is "vision" or "department research". The sum spent is
    left out: it grows while work runs.
    """

    whose: str
    hard: str
    until: datetime


@dataclass(frozen=True)
class Hold:
    """Why nothing new starts in a tenant's queue, with who can change it; NONE holds nothing."""

    reason: HoldReason = HoldReason.NONE
    detail: str = ""

    @property
    def is_held(self) -> bool:
        """Whether anything holds the queue."""
        return self.reason is not HoldReason.NONE


def month_of(at: datetime) -> date:
    """The first day of the calendar month in UTC; a budget begins anew with it."""
    return at.astimezone(UTC).date().replace(day=1)


def bounds(month: date) -> tuple[datetime, datetime]:
    """The month as [begin, end) in UTC."""
    begins = datetime(month.year, month.month, 1, tzinfo=UTC)
    later = begins + timedelta(days=32)
    return begins, later.replace(day=1)


def mark(limits: Limits, spent: Decimal) -> int:
    """The highest of 50, 80 and 100 percent that is reached, 0 below the first.

    Rule: of the soft limit; where there is none, of the hard one.
    """
    limit = limits.soft if limits.soft is not None else limits.hard
    if not limit:
        return 0
    return max((percent for percent in MARKS if spent * 100 >= limit * percent), default=0)


def is_exhausted(limits: Limits, spent: Decimal) -> bool:
    """Whether the hard limit is reached."""
    return limits.hard is not None and spent >= limits.hard


def exhausts_at(limits: Limits, spent: Decimal, *, month: date, now: datetime) -> datetime | None:
    """When the hard limit (else the soft one) is reached if the month goes on as it went so far.

    Rule: straight line from the month's first moment through `now`; None where nothing is spent or the month
    ends first; `now` where it is reached already.
    """
    limit = limits.hard if limits.hard is not None else limits.soft
    begins, ends = bounds(month)
    if limit is None or spent <= 0 or now <= begins:
        return None
    if spent >= limit:
        return now
    seconds = Decimal(int((now - begins).total_seconds())) * limit / spent
    left = Decimal(int((ends - begins).total_seconds()))
    return begins + timedelta(seconds=int(seconds)) if seconds < left else None


def amount(unit: BudgetUnit, value: Decimal, currency: str) -> str:
    """`812.40 EUR` or `120.50 GPU-hours`."""
    return f"{value:,.2f} {currency if unit is BudgetUnit.MONEY else unit.label}"


def hold(*, suspend: Suspend, exhausted: Sequence[Exhausted], manual: str) -> Hold:
    """Why a queue is held. Rule: suspended before budget before by hand; every reason is told."""
    found = []
    if suspend is not Suspend.NONE:
        words = f"Held: the tenant is suspended or being deleted. {RAISERS.capitalize()} resumes it."
        found.append(Hold(HoldReason.SUSPENDED, words))
    found += [Hold(HoldReason.BUDGET, _exhausted(each)) for each in exhausted]
    if manual:
        found.append(Hold(HoldReason.MANUAL, f"Held by {manual} {RAISERS.capitalize()} releases it."))
    if not found:
        return Hold()
    return Hold(found[0].reason, " ".join(each.detail for each in found))


def ends_of(detail: str) -> str:
    """Of the words of a hold those that say what ends it, one sentence of each reason."""
    said = re.split(r"(?<=[.!?]) ", detail)
    return " ".join(each for each in said if each.startswith((_STARTS, RAISERS.capitalize())))


def raiser(whose: str) -> str:
    """Who raises the budget of "vision" or of "department research"."""
    return PLATFORM if whose.startswith("department ") else RAISERS


def _exhausted(each: Exhausted) -> str:
    return (
        f"Held: this month's budget of {each.whose}, {each.hard}, is spent. "
        f"{_STARTS} on {each.until:%-d %B} or once {raiser(each.whose)} raises it; running work continues."
    )
