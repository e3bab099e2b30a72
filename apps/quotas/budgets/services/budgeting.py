"""Budgets: sets them, takes spend in from metering, warns at the marks and holds at the hard limit.

What is spent is computed by `apps.metering` and handed down here; this module counts no device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas import policies
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.selectors import spending
from apps.quotas.budgets.services import holding
from apps.quotas.models import Budget, Spend
from apps.quotas.wake.selectors import audience
from apps.quotas.wake.services import queue_hints
from apps.tenants import selectors as tenancy
from apps.tenants.models import Department, Tenant

MOST = Decimal(10) ** 9
Owner = Tenant | Department


@dataclass(frozen=True)
class SpendSoFar:
    """What a tenant has spent in a month, refunds taken off."""

    month: date
    money: Decimal
    gpu_hours: Decimal


@transaction.atomic
def set_budget(*, actor: Actor, owner: Owner, limits: budget.Limits, now: datetime) -> Budget:
    """Gives a tenant or department a monthly budget in that unit, or changes it; the same again changes
    nothing. A raised limit lets go at once what it held.

    Rule: a tenant's is set by platform engineers and managers of its department, a department's by platform
    engineers; limits are above 0, soft at most hard, one of them at least.
    """
    require_budgeter(actor, owner)
    _check(limits)
    row = Budget.objects.select_for_update().filter(**_of(owner), unit=limits.unit).first()
    before = (row.soft_limit, row.hard_limit) if row else (None, None)
    if row is not None and before == (limits.soft, limits.hard):
        return row
    if row is None:
        row = Budget(**_of(owner), unit=limits.unit, created_by=actor.username, generation=0)
    row.soft_limit, row.hard_limit = limits.soft, limits.hard
    row.generation += 1
    row.save()
    _judge(row, actor=actor, now=now)
    _record(actor, row, "budget.set", now=now, before=before)
    return row


@transaction.atomic
def delete_budget(*, actor: Actor, row: Budget, now: datetime) -> None:
    """Takes a budget away, and with it what it held. Rule: as `set_budget`."""
    require_budgeter(actor, row.tenant or row.department)
    under = list(spending.tenants_under(row).values_list("pk", flat=True))
    pk = row.pk
    Budget.objects.filter(pk=pk).delete()
    holding.settle(under, actor=actor, now=now)
    _record(actor, row, "budget.delete", now=now, before=(row.soft_limit, row.hard_limit))


@transaction.atomic
def record_spend(spent: Mapping[Tenant, SpendSoFar], *, now: datetime) -> None:
    """Keeps what metering counted, and judges every budget that binds one of the tenants: marks are
    announced, a reached hard limit holds.

    Rule: called at every billing tick, so what a budget is overrun by before it holds is at most what one
    tick costs. Equal figures change nothing. No audit: nobody asked for it; a hold has its own record.
    """
    tenants = sorted(spent, key=lambda tenant: tenant.pk)
    rows = [Spend(tenant=tenant, as_of=now, **asdict(spent[tenant])) for tenant in tenants]
    Spend.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["tenant", "month"],
        update_fields=["money", "gpu_hours", "as_of"],
    )
    for row in spending.locked_budgets_of(*tenants):
        _judge(row, actor=system_actor("budget"), now=now)


def judge_all(now: datetime) -> None:
    """Judges every holding budget again: a new month releases what the old one held, even if nothing runs."""
    for pk in Budget.objects.exclude(held_month=None).values_list("pk", flat=True):
        with transaction.atomic():
            row = Budget.objects.select_for_update().filter(pk=pk).first()
            if row is not None:
                _judge(row, actor=system_actor("budget"), now=now)


def follow_place(department: Department, *, above: Department | None, actor: Actor, now: datetime) -> None:
    """A department moved (`above`: its old place): judges the budgets of both places again, and its tenants'
    holds follow.
    """
    ids = {*tenancy.lineage(department), *(tenancy.lineage(above) if above else ())}
    for row in Budget.objects.select_for_update().filter(department__in=ids).order_by("pk"):
        _judge(row, actor=actor, now=now)
    under = Tenant.objects.filter(department__in=tenancy.below(department.pk), deleted_at=None)
    holding.settle(list(under.values_list("pk", flat=True)), actor=actor, now=now)


def require_budgeter(actor: Actor, owner: Owner | None) -> None:
    """Raises NotAllowed unless the actor may set and take away the budget of this tenant or department."""
    if isinstance(owner, Tenant) and not policies.can_decide(actor, owner):
        raise NotAllowed("Only a platform engineer or a manager of the department sets a tenant's budget.")
    if not isinstance(owner, Tenant) and not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer sets a department's budget.")


def _judge(row: Budget, *, actor: Actor, now: datetime) -> None:
    month, limits, spent = budget.month_of(now), spending.limits_of(row), spending.spent(row, now)
    known = row.marked if row.marked_month == month else 0
    mark, held = budget.mark(limits, spent), month if budget.is_exhausted(limits, spent) else None
    was_held = row.held_month
    if (row.marked_month, row.marked, was_held) == (month, mark, held):
        return
    row.marked_month, row.marked, row.held_month = month, mark, held
    row.save(update_fields=["marked_month", "marked", "held_month"])
    if mark > known and held is None:
        _warn(row, spent, mark, now)
    if held != was_held:
        under = list(spending.tenants_under(row))
        holding.settle([tenant.pk for tenant in under], actor=actor, now=now)
        if held:
            _tell_held(row, under, now)


def _warn(row: Budget, spent: Decimal, mark: int, now: datetime) -> None:
    limit = row.soft_limit if row.soft_limit is not None else row.hard_limit
    kind = "soft limit" if row.soft_limit is not None else "budget"
    figures = f"{spending.amount(row, spent)} of {spending.amount(row, limit or Decimal(0))}"
    words = f"{row.whose} has spent {mark} % of its {kind} for {now:%B}: {figures}."
    if row.hard_limit is not None:
        words += f" At {spending.amount(row, row.hard_limit)} new work is held."
    under = list(spending.tenants_under(row))
    for tenant in under:
        _tell(audience.leads(tenant), tenant, words, now)
    if under:
        _tell(audience.managers(row.department or under[0].department), under[0], words, now)


def _tell_held(row: Budget, under: Sequence[Tenant], now: datetime) -> None:
    """Every member, since anybody's work may wait; and, once, those who can raise it."""
    whose, limit = row.whose, spending.amount(row, row.hard_limit or Decimal(0))
    _, until = budget.bounds(budget.month_of(now))
    words = (
        f"The budget of {whose} for {now:%B}, {limit}, is spent. New work is held until {until:%-d %B} "
        f"or until {budget.raiser(whose)} raises it; running work continues."
    )
    for tenant in under:
        _tell(audience.members(tenant), tenant, words, now, kind=Kind.BUDGET_HARD)
    if under:
        _tell(audience.deciders(under[0]), under[0], words, now, kind=Kind.BUDGET_HARD)


def _tell(
    people: list[UUID], tenant: Tenant, words: str, now: datetime, *, kind: Kind = Kind.BUDGET_SOFT
) -> None:
    url = f"/t/{tenant.slug}/quota/"
    notices.tell(people, kind=kind, message=words, url=url, at=now, tenant=tenant.slug)
    queue_hints.tell_pages(tenant, str(tenant.pk))


def _check(limits: budget.Limits) -> None:
    problems = [
        FieldProblem(
            f"/spec/{name}_limit", "out_of_range", "A limit must be above 0 and at most 1,000,000,000."
        )
        for name, limit in (("soft", limits.soft), ("hard", limits.hard))
        if limit is not None and not 0 < limit <= MOST
    ]
    if limits.soft is None and limits.hard is None:
        problems.append(FieldProblem("/spec/hard_limit", "required", "Give a soft or a hard limit."))
    if limits.soft is not None and limits.hard is not None and limits.soft > limits.hard:
        words = "The soft limit cannot be above the hard one: it would never warn."
        problems.append(FieldProblem("/spec/soft_limit", "out_of_range", words))
    if problems:
        raise Invalid(problems)


def _of(owner: Owner) -> dict[str, Owner]:
    return {"tenant": owner} if isinstance(owner, Tenant) else {"department": owner}


def _record(
    actor: Actor, row: Budget, action: str, *, now: datetime, before: tuple[Decimal | None, Decimal | None]
) -> None:
    after = (None, None) if action == "budget.delete" else (row.soft_limit, row.hard_limit)
    pairs = zip(("soft_limit", "hard_limit"), before, after, strict=True)
    changes = {name: [_text(old), _text(new)] for name, old, new in pairs}
    audit.record(actor, action, row, now=now, changes=changes)


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value.normalize():f}"
