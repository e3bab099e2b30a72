"""Who may do what with workloads. Answers only; services refuse."""

from apps.accounts.specs import Actor
from apps.tenants import policies as tenancy
from apps.tenants.models import Tenant
from apps.tenants.selectors import role_of
from apps.workloads.models import Workload
from apps.workloads.specs import OpenTo


def can_submit(actor: Actor, tenant: Tenant) -> bool:
    """Members, leads and platform engineers."""
    return tenancy.can_use_tenant(actor, tenant)


def can_protect(actor: Actor, tenant: Tenant) -> bool:
    """Whether the actor may give work the class that never gives borrowed devices back: leads, platform."""
    return tenancy.can_lead(actor, tenant)


def can_set_idleness(actor: Actor, tenant: Tenant) -> bool:
    """Whose word on a workload's idleness counts as given, also where the team's policy is stricter."""
    return tenancy.can_lead(actor, tenant)


def can_operate(actor: Actor, workload: Workload) -> bool:
    """Its owner while a member, the tenant's leads, platform engineers."""
    if tenancy.can_lead(actor, workload.tenant):
        return True
    return actor.user_id == workload.owner_id and tenancy.can_use_tenant(actor, workload.tenant)


def can_open(actor: Actor, workload: Workload) -> bool:
    """Its owner while in the team, and the team's members where the owner has opened it to them. Whoever
    opens it works as its owner does, so no role opens what was not shared.
    """
    if actor.user_id == workload.owner_id:
        return tenancy.can_use_tenant(actor, workload.tenant)
    return workload.open_to == OpenTo.TEAM and role_of(actor, workload.tenant) is not None


def can_share(actor: Actor, workload: Workload) -> bool:
    """Only its owner opens a workload to others."""
    return actor.user_id == workload.owner_id


def can_stop(actor: Actor, workload: Workload) -> bool:
    """Who may operate it, and the managers of its department: the one thing that they may do to work."""
    return can_operate(actor, workload) or tenancy.can_administer(actor, workload.tenant)


def can_manage_images(actor: Actor) -> bool:
    """Platform engineers keep the catalogue of images, and say which others may be used."""
    return actor.is_platform


def can_manage_templates(actor: Actor) -> bool:
    """Platform engineers keep the catalogue of templates."""
    return actor.is_platform


def can_set_defaults(actor: Actor, tenant: Tenant) -> bool:
    """Leads and platform engineers say what a tenant's forms of a template start with."""
    return tenancy.can_lead(actor, tenant)


def can_arrange(actor: Actor, workload: Workload) -> bool:
    """Platform engineers: the order of a queue concerns all who wait in it."""
    return tenancy.can_manage_tenant(actor, workload.tenant)
