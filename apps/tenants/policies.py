"""Who may do what with tenants and their members. Answers only; services refuse."""

from django.db.models import Q, QuerySet

from apps.accounts.specs import Actor
from apps.tenants import selectors
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Role


def can_manage_tenants(actor: Actor) -> bool:
    """Platform engineers make tenants and departments, unless the token is cut to some tenants."""
    return actor.is_platform


def may_make_tenants(actor: Actor) -> bool:
    """Whether there is any department in which the actor makes tenants: to be asked before a body is read."""
    return can_manage_tenants(actor) or (actor.tenants is None and bool(selectors.managed_by(actor)))


def can_make_tenant_in(actor: Actor, department: Department) -> bool:
    """Platform engineers and the department's managers, unless the token is cut to some tenants."""
    return can_manage_tenants(actor) or (
        actor.tenants is None and department.pk in selectors.managed_by(actor)
    )


def can_manage_tenant(actor: Actor, tenant: Tenant) -> bool:
    """Platform engineers set its trust level, its egress, shell access and its quota."""
    return actor.is_engineer_of(tenant.slug)


def can_administer(actor: Actor, tenant: Tenant) -> bool:
    """Managers of its department and platform engineers rename, suspend, archive and delete it."""
    if can_manage_tenant(actor, tenant):
        return True
    return actor.reaches(tenant.slug) and tenant.department_id in selectors.managed_by(actor)


def can_use_tenant(actor: Actor, tenant: Tenant) -> bool:
    """Members, leads and platform engineers run workloads in it; a manager only looks on."""
    return can_manage_tenant(actor, tenant) or selectors.role_of(actor, tenant) is not None


def can_lead(actor: Actor, tenant: Tenant) -> bool:
    """Its leads and platform engineers decide on others' workloads."""
    return can_manage_tenant(actor, tenant) or selectors.role_of(actor, tenant) is Role.LEAD


def kept_tenants(actor: Actor) -> QuerySet[Tenant]:
    """The tenants whose service accounts the actor sees: where it decides on members, and auditors."""
    seen = selectors.tenants_for(actor)
    if actor.watches_tenants:
        return seen
    led = Q(memberships__user=actor.user_id, memberships__role=Role.LEAD)
    return seen.filter(led | Q(department__in=selectors.managed_by(actor))).distinct()


def can_decide_on_members(actor: Actor, tenant: Tenant) -> bool:
    """Its leads, managers of its department and platform engineers."""
    return can_lead(actor, tenant) or can_administer(actor, tenant)
