"""Reading the rules on groups, and what they would make of somebody. Never writes."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import ExternalIdentity, User
from apps.accounts.specs import Actor
from apps.tenants.models import Department, DepartmentManager, GroupRule, Membership, RuleGrant, Tenant
from apps.tenants.people.rules.group_rights import Gift, Key, Outcome, Rule, outcomes
from apps.tenants.specs import DepartmentRole, RightKind
from apps.web.requests.lookups import by_id


def rules_for(actor: Actor) -> QuerySet[GroupRule]:
    """Every rule, for platform engineers and auditors alone."""
    return GroupRule.objects.all() if actor.sees_everything else GroupRule.objects.none()


def rule_for(actor: Actor, key: str | UUID) -> GroupRule:
    """One rule by id, if the actor may see rules; raises NotFound."""
    return by_id(rules_for(actor), key)


def effect(provider: str, groups: Collection[str], user: User | None) -> list[Outcome]:
    """What a sign-in with these groups would give and take; without somebody: what a new person gets."""
    return outcomes(
        rules_of(provider),
        frozenset(groups),
        held=held_by(user) if user else {},
        gifts=gifts_of(user, provider) if user else {},
    )


def groups_of(user: User, provider: str) -> list[str]:
    """The groups that the provider told of at the person's last sign-in."""
    row = ExternalIdentity.objects.filter(user=user, provider=provider).order_by("-used_at").first()
    return list(row.groups) if row else []


def rules_of(provider: str) -> list[Rule]:
    """The rules of a provider whose tenant or department is there and takes people."""
    open_to = {
        RightKind.TENANT: frozenset(_open_tenants()),
        RightKind.DEPARTMENT: frozenset(_open_departments()),
        RightKind.PLATFORM: frozenset({""}),
    }
    rows = GroupRule.objects.filter(provider=provider).order_by("group", "kind", "target")
    found = [Rule(row.group, RightKind(row.kind), row.target, row.role) for row in rows]
    return [rule for rule in found if rule.target in open_to[rule.kind]]


def makers_of(provider: str, outcome: Outcome) -> frozenset[str]:
    """Who wrote the rules that give somebody this role; nobody where none does."""
    rows = GroupRule.objects.filter(provider=provider, kind=outcome.kind, target=outcome.target)
    rows = rows.filter(role=outcome.after, group__in=outcome.groups)
    return frozenset(rows.values_list("created_by", flat=True))


def held_by(user: User) -> dict[Key, str]:
    """Every right that somebody has, whoever gave it."""
    members = Membership.objects.filter(user=user).values_list("tenant__slug", "role")
    managed = DepartmentManager.objects.filter(user=user).values_list("department__slug", flat=True)
    return {
        **{(RightKind.TENANT, slug): role for slug, role in members},
        **{(RightKind.DEPARTMENT, slug): str(DepartmentRole.MANAGER) for slug in managed},
        (RightKind.PLATFORM, ""): user.platform_role,
    }


def gifts_of(user: User, provider: str) -> dict[Key, Gift]:
    """What rules gave somebody, of what is there still and takes people."""
    tenants, departments = set(_open_tenants()), set(_open_departments())
    found = {}
    for row in RuleGrant.objects.filter(user=user, provider=provider):
        kind = RightKind(row.kind)
        there = {RightKind.TENANT: tenants, RightKind.DEPARTMENT: departments}.get(kind, {""})
        if row.target in there:
            found[kind, row.target] = Gift(row.role, row.before)
    return found


def _open_tenants() -> QuerySet[Tenant, str]:
    rows = Tenant.objects.filter(deleted_at=None, deleting_at=None, archived_at=None)
    return rows.values_list("slug", flat=True)


def _open_departments() -> QuerySet[Department, str]:
    return Department.objects.filter(deleted_at=None, deleting_at=None).values_list("slug", flat=True)
