"""Closing a tenant's month: lines to the cent, corrections of months closed before, a number, a digest."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DecimalField

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.audit.chain import plain
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.metering.billing.rules import rounding
from apps.metering.billing.rules.rounding import Billed, Key, Line
from apps.metering.billing.selectors import focus_export, line_items, months
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import Statement, StatementExport, StatementLine
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
        held = line_items.holdings_of_month([locked], month, now=now)
        charges = line_items.charges_in(locked, held.known, (begins, ends), now=now)
        found = rounding.lines(charges, begins, ends)
        for before in closed[-MOST_MONTHS_BACK:]:
            found += corrections_of(before, now=now)
        made = _written(actor, locked, held, found, month=month, number=len(closed) + 1)
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
    """Whether nobody changed it behind our back: its digest is that of all its columns, its sums those of its
    lines.
    """
    rows = list(statement.lines.all())
    sums = _sums(rows)
    right = all(getattr(statement, name) == money for name, money in sums.items())
    kept = StatementExport.objects.filter(statement=statement).first()
    right &= (_digest_of(focus_export.unpacked(kept)) if kept else "") == statement.focus_digest
    return right and statement.digest in (_digest(statement, rows), digest_of_before(statement, rows))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_order(closed: Sequence[Statement], month: date) -> None:
    if any(each.month == month for each in closed):
        number = next(each.number for each in closed if each.month == month)
        words = f"{month:%B %Y} is closed: statement {number}."
        raise AlreadyExists(words, hint="Later corrections go into the next one.")
    if closed and month != (after := budget.bounds(closed[-1].month)[1].date()):
        raise Conflict(f"Months are closed in order: the next one is {after:%B %Y}.")


def _written(
    actor: Actor, tenant: Tenant, held: MonthHoldings, found: Sequence[Line], *, month: date, number: int
) -> Statement:
    """The head, its lines, and its file as it is exported from now on."""
    statement = Statement(
        tenant=tenant,
        month=month,
        number=f"{tenant.slug}-{number:04d}",
        currency=settings.CONFIG.currency,
        formula=effective_formula.present().label,
        closed_at=held.now,
        closed_by=actor.username,
        created_at=held.now,
        **_sums(found),
    )
    rows = [_row(statement, position, line) for position, line in enumerate(found, 1)]
    text = focus_export.text_of_days(months.month_with(statement, found), held)
    statement.focus_digest = _digest_of(text)
    statement.digest = _digest(statement, rows)
    statement.save()
    StatementLine.objects.bulk_create(rows)
    StatementExport(statement=statement, focus=focus_export.packed(text)).save()
    return statement


def _sums(lines: Sequence[Line] | Sequence[StatementLine]) -> dict[str, Decimal]:
    """The head's amounts by its lines'."""
    names = ("effective", "waste", "unknown")
    parts = {name: sum((getattr(line, name) for line in lines), Decimal(0)) for name in names}
    total = sum((line.amount for line in lines), Decimal(0))
    return {**parts, "total": total, "other": total - sum(parts.values(), Decimal(0))}


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
    """RULE: over every column, a new one too, except itself and what the database numbers. A column that has
    its default is left out, so that one that is added later leaves what is closed as it is.
    """
    ordered = sorted(rows, key=lambda row: row.position)
    return rounding.digest(_columns(statement), [_columns(row) for row in ordered])


def _columns(row: Statement | StatementLine) -> dict[str, Any]:
    """As the database gives them back, whatever they were written as."""
    found = {}
    for each in row._meta.concrete_fields:
        value = each.to_python(getattr(row, each.attname))
        if each.name not in ("id", "digest") and value != each.get_default():
            places = each.decimal_places if isinstance(each, DecimalField) else None
            found[each.attname] = plain(value) if places is None else f"{value:.{places}f}"
    return found


def digest_of_before(statement: Statement, rows: Sequence[StatementLine]) -> str:
    """What was closed before decision 0040 has this: prices and the head's split are not in it."""
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
