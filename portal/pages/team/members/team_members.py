"""What the pages of members and service accounts show. Reads only."""

from typing import Any

from django.conf import settings
from django.templatetags.static import static

from apps.accounts.specs import Actor
from apps.tenants import policies, selectors, virtual_members
from apps.tenants.isolation.kubeconfig import PLUGIN
from apps.tenants.models import ServiceAccount, Tenant
from apps.tenants.people.services import service_accounts

INSTALL = "curl -fsSL {0} -o ~/.local/bin/{1} && chmod +x ~/.local/bin/{1}"


def members(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """The people and the service accounts of a tenant, and the actor's own way into its cluster."""
    rows = selectors.people_of(tenant)
    decides = policies.can_decide_on_members(actor, tenant)
    accounts = service_accounts.accounts_for(actor).filter(tenant=tenant).order_by("slug") if decides else ()
    return {
        "tenant": tenant,
        "rows": rows,
        "leads": sum(row.role == "lead" for row in rows),
        "decides": decides,
        "accounts": [_account(row) for row in accounts],
        "is_member": selectors.role_of(actor, tenant) is not None,
        "install": INSTALL.format(settings.CONFIG.url + static("bin/allotment-credential"), PLUGIN),
        "virtual": _virtual(tenant),
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def _virtual(tenant: Tenant) -> dict[str, Any] | None:
    """Whether a member gets into the tenant's virtual cluster; None for every other isolation."""
    spec = selectors.vcluster_of(tenant)
    if spec is None:
        return None
    return {"refusal": virtual_members.refusal(tenant), "is_reached_outside": bool(spec.api_host)}


def account(actor: Actor, tenant: Tenant, row: ServiceAccount) -> dict[str, Any]:
    """A service account with its live tokens."""
    return {
        "tenant": tenant,
        "account": _account(row),
        "tokens": service_accounts.tokens_for(row).order_by("-created_at"),
        "decides": policies.can_decide_on_members(actor, tenant),
    }


def _account(row: ServiceAccount) -> dict[str, Any]:
    return {"row": row, "role": service_accounts.current_role(row)}
