"""The fleet's month in FOCUS's columns: every tenant's bill, and what nobody paid for. Reads only."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from django.conf import settings

from apps.accounts.specs import Actor
from apps.metering.billing.rules import focus
from apps.metering.billing.rules.pricing import MICROS_PER_HOUR, amount
from apps.metering.billing.selectors import focus_export, line_items, months
from apps.metering.specs import Account, IdleReason, LineKind
from apps.metering.usage.selectors import aggregates
from apps.quotas.budgets.rules import budget
from apps.tenants.selectors import tenants_ever_for
from apps.web.requests.sheets import csv_text

PLATFORM = ("platform", "Platform")
NOTHING = Decimal(0)


def text_of(actor: Actor, month: date, *, now: datetime) -> str:
    """RULE: x_GpuHours of all rows sum to the GPU time that there was, and BilledCost to what is charged."""
    begins, ends = budget.bounds(month)
    until = min(ends, aggregates.until() or begins)
    teams = tenants_ever_for(actor).exclude(deleted_at__lt=begins)
    bills = (
        focus_export.text_of(months.month_of(tenant, month, now=now), now=now)
        for tenant in teams.order_by("slug", "created_at")
    )
    return focus_export.joined([*bills, _own(actor, begins, ends, until)])


def _own(actor: Actor, begins: datetime, ends: datetime, until: datetime) -> str:
    """Idle and unattributed time, day by day, by model and reason: the platform's own, charged to nobody."""
    account = focus.Account(*PLATFORM, *PLATFORM, settings.CONFIG.currency, "", begins, ends)
    found = [each for day in line_items.days(begins, until) for each in _day(actor, *day)]
    return csv_text(focus.COLUMNS, focus.rows(account, found))


def _day(actor: Actor, begins: datetime, ends: datetime) -> Iterator[focus.Charged]:
    sums = aggregates.sums(aggregates.rows_for(actor), begins, ends, by=("account", "reason", "model"))
    for (name, reason, model), totals in sorted(sums.items()):
        account = Account(name)
        if account is Account.TENANT or not totals.gpu:
            continue
        hours = amount(Fraction(totals.gpu) / MICROS_PER_HOUR)
        why = IdleReason(reason).label.lower() if reason in set(IdleReason) else account.label.lower()
        yield focus.Charged(
            kind=LineKind.GPU, about=LineKind.GPU, description=f"Charged to nobody: {why}, {model or 'GPU'}",
            quantity=hours, unit=line_items.UNITS_OF[LineKind.GPU], amount=NOTHING, listed=NOTHING,
            begins=begins, ends=ends, unit_price=NOTHING, list_price=NOTHING, parts={}, formula="",
            workload="", workload_name="", offer=f"{account}", capacity="",
            tags=focus.tags_of({"account": str(account), "reason": reason, "model": model}, {}),
            details=focus.details_of(LineKind.GPU, F_GpuCount=1), consumed=hours, gpu_hours=hours,
        )  # fmt: skip
