"""What is drawn and told of a whole team or fleet: sums over all its GPUs, a row per account and bucket.

Reads only. Exact sums, what money is made of, and all that is told of single devices are in `aggregates` and
`series`.
"""

from collections.abc import Collection
from datetime import datetime

from django.db.models import F, QuerySet, Sum

from apps.accounts.specs import Actor
from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import AccountSum
from apps.metering.specs import Account
from apps.metering.usage.selectors import aggregates
from apps.metering.usage.selectors.aggregates import Steps
from apps.metering.usage.selectors.series import Sums, slot_of
from apps.tenants.selectors import seen_by

_COLUMNS = {
    "allocated": "gpu_us", "seen": "seen_us", "smi_seen": "smi_us", "sm_seen": "sm_us",
    "tensor_seen": "tensor_us", "dram_seen": "dram_us", "smi": "smi", "sm": "sm", "tensor": "tensor",
    "dram": "dram", "beside": "beside",
}  # fmt: skip


def rows_for(actor: Actor) -> QuerySet[AccountSum]:
    """The sums an actor may see, by the rule of `aggregates.rows_for`."""
    rows = AccountSum.objects.all()
    return rows if actor.sees_everything else rows.filter(tenant__in=seen_by(actor))


def held_for(actor: Actor) -> QuerySet[AccountSum]:
    """What somebody held, of what an actor sees."""
    return rows_for(actor).exclude(account=Account.IDLE)


def series(rows: QuerySet[AccountSum], steps: Steps, *, of: Collection[str]) -> dict[int, Sums]:
    """The sums of each step that has any; one query. Only those named in `of` are made, the others stay 0.

    Raises KeyError for causes of waste, which are told of devices alone.
    """
    judged = effective_formula.judged(steps.begins, steps.ends)
    columns = {name: _COLUMNS[name] for name in ("allocated", *of)}
    sums = {f"told_{name}": Sum(judged.get(column, F(column))) for name, column in columns.items()}
    inside = rows.filter(level=steps.level, starts_at__gte=steps.begins, starts_at__lt=steps.ends)
    found = inside.annotate(slot=slot_of(steps)).order_by().values("slot").annotate(**sums)
    return {
        slot: Sums(**dict(zip(columns, map(int, told), strict=True)))
        for slot, *told in found.values_list("slot", *sums)
    }


def by_account(
    rows: QuerySet[AccountSum], begins: datetime, ends: datetime
) -> dict[tuple[Account, str], int]:
    """Microseconds of GPUs in [begins, ends) by account and reason (only of idle)."""
    found: dict[tuple[Account, str], int] = {}
    for level, first, last in aggregates.spans(begins, ends):
        inside = rows.filter(level=level, starts_at__gte=first, starts_at__lt=last).order_by()
        summed = inside.values_list("account", "reason").annotate(gpu=Sum("gpu_us"))
        for account, reason, gpu in summed:
            key = Account(account), reason
            found[key] = found.get(key, 0) + int(gpu)
    return found
