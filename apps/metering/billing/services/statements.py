"""Closing a tenant's month: lines to the cent, corrections of months closed before, a number, a digest."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.metering.billing.rules import rounding
from apps.metering.billing.rules.rounding import Billed, Key, Line
from apps.metering.billing.selectors import line_items
from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import Statement, StatementLine
from apps.metering.specs import LineKind
from apps.quotas.budgets.rules import budget
from apps.quotas.policies import can_manage_catalogue
from apps.tenants.models import Tenant

MOST_MONTHS_BACK = 12
"""How many closed months are looked at again when the next one is closed."""


def close_month(*, actor: Actor, tenant: Tenant, month: date, now: datetime) -> Statement:
    """Writes a month's statement, once and for all.

    Rule: platform engineers only; a month that has ended (UTC), once; months are closed in their order, so
    that none is left out. What has come to light of the last 12 closed months is corrected in this one.
    """
    require_closer(actor)
    begins, ends = budget.bounds(month)
    if month.day != 1:
        raise Invalid([FieldProblem("/month", "invalid_value", "A month is written 2026-10.")])
    if ends > now:
        raise Conflict(f"{month:%B %Y} ends on {ends:%Y-%m-%d} (UTC); it can be closed after that.")
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(of=("self",)).get(pk=tenant.pk)
        closed = list(Statement.objects.filter(tenant=locked).order_by("month"))
        _refuse_order(closed, month)
        charges = line_items.charges_of(locked, begins, ends, now=now)
        found = rounding.lines(charges, begins, ends)
        for before in closed[-MOST_MONTHS_BACK:]:
            found += corrections_of(before, now=now)
        made = _written(actor, locked, month, found, number=len(closed) + 1, now=now)
        changes = {"total": [None, f"{made.total:.2f}"], "digest": [None, made.digest]}
        audit.record(actor, "statement.close", made, now=now, changes=changes)
    return made


def require_closer(actor: Actor) -> None:
    """Rule: platform engineers close months; raises NotAllowed."""
    if not can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer closes a month.")


def corrections_of(closed: Statement, *, now: datetime) -> list[Line]:
    """What has to be put right of a closed month, by what the facts and prices say now. RULE: judged by the
    formula it was closed with; a new formula is for months that are still open.
    """
    begins, ends = budget.bounds(closed.month)
    charges = line_items.charges_of(closed.tenant, begins, ends, now=now)
    return rounding.corrections(charges, billed(closed), begins, ends)


def billed(closed: Statement) -> dict[Key, Billed]:
    """What was billed for a closed month so far, thing by thing, later corrections included."""
    begins, _ = budget.bounds(closed.month)
    rows = list(closed.lines.exclude(kind=LineKind.CORRECTION))
    later = StatementLine.objects.filter(
        statement__tenant=closed.tenant_id, kind=LineKind.CORRECTION, begins=begins
    )
    found: dict[Key, Billed] = {}
    for row in [*rows, *later]:
        key = Key(LineKind(row.about), row.workload_id, row.offer_id, row.capacity)
        causes = {cause: Decimal(text) for cause, text in row.causes.items()}
        parts = rounding.parts_of(row.effective, causes, row.unknown) if causes else {}
        found[key] = found.get(key, Billed()).with_line(row.amount, parts)
    return found


def is_whole(statement: Statement) -> bool:
    """Whether nobody changed it behind our back: its digest is that of its lines, which sum to its total."""
    rows = list(statement.lines.all())
    total = sum((row.amount for row in rows), Decimal(0))
    return statement.total == total and statement.digest == _digest(statement, rows)


def _refuse_order(closed: Sequence[Statement], month: date) -> None:
    if any(each.month == month for each in closed):
        number = next(each.number for each in closed if each.month == month)
        words = f"{month:%B %Y} is closed: statement {number}."
        raise AlreadyExists(words, hint="Later corrections go into the next one.")
    if closed and month != (after := budget.bounds(closed[-1].month)[1].date()):
        raise Conflict(f"Months are closed in order: the next one is {after:%B %Y}.")


def _written(
    actor: Actor, tenant: Tenant, month: date, found: Sequence[Line], *, number: int, now: datetime
) -> Statement:
    parts = {
        name: sum((getattr(line, name) for line in found), Decimal(0))
        for name in ("effective", "waste", "unknown")
    }
    total = sum((line.amount for line in found), Decimal(0))
    statement = Statement(
        tenant=tenant,
        month=month,
        number=f"{tenant.slug}-{number:04d}",
        currency=settings.CONFIG.currency,
        formula=effective_formula.present().label,
        total=total,
        other=total - sum(parts.values(), Decimal(0)),
        closed_at=now,
        closed_by=actor.username,
        **parts,
    )
    rows = [_row(statement, position, line) for position, line in enumerate(found, 1)]
    statement.digest = _digest(statement, rows)
    statement.save()
    StatementLine.objects.bulk_create(rows)
    return statement


def _row(statement: Statement, position: int, line: Line) -> StatementLine:
    return StatementLine(
        statement=statement,
        position=position,
        kind=line.kind,
        about=line.about,
        workload_id=line.key.workload,
        offer_id=line.key.offer,
        capacity=line.key.capacity,
        description=line.description[:200],
        quantity=line.quantity,
        unit=line.unit,
        unit_price=line.unit_price,
        list_price=line.list_price,
        listed=line.listed,
        amount=line.amount,
        effective=line.effective,
        waste=line.waste,
        unknown=line.unknown,
        causes={cause: str(money) for cause, money in line.causes.items()},
        begins=line.begins,
        ends=line.ends,
    )


def _digest(statement: Statement, rows: Sequence[StatementLine]) -> str:
    head = {
        "number": statement.number,
        "tenant": str(statement.tenant_id),
        "month": f"{statement.month:%Y-%m}",
        "currency": statement.currency,
        "formula": statement.formula,
        "total": f"{statement.total:.2f}",
    }
    return rounding.digest(head, [_plain(row) for row in sorted(rows, key=lambda row: row.position)])


def _plain(row: StatementLine) -> Mapping[str, Any]:
    money = ("amount", "effective", "waste", "unknown", "listed")
    return {
        "position": row.position,
        "kind": str(row.kind),
        "about": str(row.about),
        "workload": str(row.workload_id or ""),
        "offer": str(row.offer_id or ""),
        "capacity": row.capacity,
        "description": row.description,
        "quantity": f"{row.quantity:.8f}",
        "unit": row.unit,
        "causes": row.causes,
        "begins": row.begins.isoformat(),
        "ends": row.ends.isoformat(),
        **{name: f"{getattr(row, name):.2f}" for name in money},
    }
