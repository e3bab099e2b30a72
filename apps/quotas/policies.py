"""Who may do what with flavors, offers, prices and quotas. Answers only; services refuse."""

from apps.accounts.specs import Actor
from apps.tenants import policies as tenancy
from apps.tenants.models import Tenant


def can_manage_catalogue(actor: Actor) -> bool:
    """Platform engineers decide on flavors, offers and prices, unless the token is cut to some tenants."""
    return tenancy.can_manage_tenants(actor)


def can_set_quota(actor: Actor, tenant: Tenant) -> bool:
    """Platform engineers give and take quota."""
    return tenancy.can_manage_tenant(actor, tenant)


def can_ask_for_quota(actor: Actor, tenant: Tenant) -> bool:
    """Leads of the tenant ask for more, and platform engineers for them."""
    return tenancy.can_lead(actor, tenant)


def can_decide(actor: Actor, tenant: Tenant) -> bool:
    """Managers of its department and platform engineers decide on requests, grants, budgets and holds."""
    return tenancy.can_administer(actor, tenant)


def may_promise_beyond_stock(actor: Actor, tenant: Tenant) -> bool:
    """Only platform engineers guarantee more devices than the cluster has."""
    return tenancy.can_manage_tenant(actor, tenant)
