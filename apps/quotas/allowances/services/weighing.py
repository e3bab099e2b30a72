"""How tenants and departments share what nobody is guaranteed: weights, nesting, bounds. Writes intent."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.reconciling.services import wake
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.quotas import policies
from apps.quotas.allowances.selectors import effect
from apps.quotas.allowances.selectors.effect import Moves
from apps.quotas.budgets.services import budgeting
from apps.quotas.models import Offer, TenantQueue
from apps.ranges import DEVICES
from apps.tenants.models import Department, Tenant
from apps.web.requests.rehearsals import rehearsal

MOST_WEIGHT = 1000
DEEPEST = 5
"""Departments below one another: more than any organisation needs, and a limit to every walk up the tree."""


Bounds = Mapping[Offer, tuple[int | None, int | None]]


@dataclass(frozen=True)
class DepartmentShare:
    """Where a department stands: below which other one (None: at the top), with which weight and bounds by
    offer: (may borrow, must lend) towards the parent in devices, None is no limit.
    """

    parent: Department | None
    fair_weight: Decimal = Decimal(1)
    bounds: Bounds | None = None


@transaction.atomic
def set_weight(*, actor: Actor, tenant: Tenant, fair_weight: Decimal, now: datetime) -> TenantQueue:
    """How much of what is lent a tenant gets beside others, where the cluster's Kueue shares fairly.

    Rule: platform engineers only; 0 to 1000, 1 is the usual, 0 borrows last of all.
    """
    require_keeper(actor)
    _check_weight(fair_weight)
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    queue, _ = TenantQueue.objects.get_or_create(tenant=tenant, defaults={"cluster": tenant.cluster})
    if queue.fair_weight == fair_weight:
        return queue
    old, queue.fair_weight = queue.fair_weight, fair_weight
    TenantQueue.objects.filter(pk=queue.pk).update(fair_weight=fair_weight, generation=F("generation") + 1)
    audit.record(actor, "queue.weight", queue, now=now, changes={"fair_weight": [old, fair_weight]})
    wake.hint("queue", str(queue.pk))
    return TenantQueue.objects.get(pk=queue.pk)


@transaction.atomic
def set_share(*, actor: Actor, department: Department, share: DepartmentShare, now: datetime) -> Department:
    """Puts a department below another one or at the top, with its weight and its bounds.

    Rule: platform engineers only; parent and offers are of its own cluster, the parent stays, no department
    is below itself, at most 5 deep; bounds need a parent (Kueue allows none at the top).
    """
    require_keeper(actor)
    locked = Department.objects.select_for_update().get(pk=department.pk)
    bounds = [
        {"flavor": o.flavor.object_name, "resource": o.resource_name, "borrowing": borrow, "lending": lend}
        for o, (borrow, lend) in sorted((share.bounds or {}).items(), key=lambda pair: pair[0].slug)
        if (borrow, lend) != (None, None)
    ]
    _check_share(locked, share, has_bounds=bool(bounds))
    parent = share.parent.pk if share.parent else None
    wanted = {"parent_id": parent, "fair_weight": share.fair_weight, "bounds": bounds}
    changes = {name: [getattr(locked, name), value] for name, value in wanted.items()}
    changes = {name: pair for name, pair in changes.items() if pair[0] != pair[1]}
    if not changes:
        return locked
    stood = locked.parent
    for name, value in wanted.items():
        setattr(locked, name, value)
    locked.generation += 1
    locked.save(update_fields=["parent", "fair_weight", "bounds", "generation", "updated_at"])
    if "parent_id" in changes:
        budgeting.follow_place(locked, above=stood, actor=actor, now=now)
    audit.record(actor, "department.share", locked, now=now, changes=changes)
    wake.hint("department", str(locked.pk))
    return locked


def preview_share(*, actor: Actor, department: Department, share: DepartmentShare, now: datetime) -> Moves:
    """What `set_share` would do, with its checks and refusals; nothing is kept."""
    with rehearsal():
        return effect.of_share(set_share(actor=actor, department=department, share=share, now=now), now=now)


def _check_share(department: Department, share: DepartmentShare, *, has_bounds: bool) -> None:
    _check_weight(share.fair_weight)
    above = _above(share.parent)
    problems = []
    if share.parent is not None and share.parent.cluster_id != department.cluster_id:
        problems.append(FieldProblem("/spec/parent", "reference_not_found", "It is on another cluster."))
    if share.parent is not None and share.parent.deleting_at is not None:
        words = f"{share.parent.slug} is being deleted: choose another one."
        problems.append(FieldProblem("/spec/parent", "reference_not_found", words))
    if any(each.pk == department.pk for each in above):
        problems.append(FieldProblem("/spec/parent", "invalid_value", "A department cannot be below itself."))
    if len(above) >= DEEPEST:
        problems.append(
            FieldProblem("/spec/parent", "out_of_range", f"Departments nest at most {DEEPEST} deep.")
        )
    if has_bounds and share.parent is None:
        words = "Only a department that has a parent can borrow and lend."
        problems.append(FieldProblem("/spec/bounds", "invalid_value", words))
    problems += _bound_problems(department, share.bounds or {})
    if problems:
        raise Invalid(problems)


def _bound_problems(department: Department, bounds: Bounds) -> list[FieldProblem]:
    elsewhere = [
        FieldProblem("/spec/bounds", "reference_not_found", f"{offer.slug} is on another cluster.")
        for offer in bounds
        if offer.cluster_id != department.cluster_id
    ]
    elsewhere += [
        FieldProblem("/spec/bounds", "invalid_value", f"{offer.slug} has no GPU: cores have no bounds here.")
        for offer, limits in bounds.items()
        if offer.is_cores and limits != (None, None)
    ]
    stray = any(
        limit is not None and not DEVICES.holds(limit) for limits in bounds.values() for limit in limits
    )
    words = f"Limits must be from 0 to {DEVICES.most} devices."
    wrong = [FieldProblem("/spec/bounds", "out_of_range", words)] if stray else []
    return [*elsewhere, *wrong]


def _above(department: Department | None) -> list[Department]:
    found: list[Department] = []
    while department is not None and len(found) <= DEEPEST:
        found.append(department)
        department = department.parent
    return found


def _check_weight(weight: Decimal) -> None:
    if not (weight.is_finite() and 0 <= weight <= MOST_WEIGHT):
        raise Invalid([FieldProblem("/spec/fair_weight", "out_of_range", f"From 0 to {MOST_WEIGHT}.")])


def require_keeper(actor: Actor) -> None:
    """Rule: platform engineers set weights, nesting and bounds; raises NotAllowed."""
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer sets weights and bounds.")
