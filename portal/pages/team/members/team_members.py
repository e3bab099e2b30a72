"""What the pages of members and service accounts show. Reads only."""

from typing import Any

from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse

from apps.accounts.policies import can_view
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import policies, selectors, virtual_members
from apps.tenants.isolation.kubeconfig import PLUGIN
from apps.tenants.lifecycle.selectors import logins
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import ServiceAccount, Tenant
from apps.tenants.people.selectors import invitations
from apps.tenants.people.services import registries, service_accounts
from apps.tenants.specs import InvitationStatus
from portal.pages.parts.confirm import Question, work_of

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
        "viewable": {row.user_id for row in rows if can_view(actor, row.user)},
        "invitations": [
            (row, InvitationStatus(row.status).sentence)
            for row in invitations.pending_for(actor, tenant, decides=decides)
        ],
        "accounts": [_account(row) for row in accounts],
        "registries": logins.registries_of(tenant),
        "keeps": policies.can_lead(actor, tenant),
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


def leaving(actor: Actor, tenant: Tenant, username: str) -> Question:
    """What the end of a membership means; raises NotFound for no member, NotAllowed as the end itself."""
    if actor.username != username:
        tenancy.require_lead(actor, tenant)
    user = next((row.user for row in selectors.people_of(tenant) if row.user.username == username), None)
    if user is None:
        raise NotFound
    is_self = actor.username == username
    return Question(
        title=f"Leave {tenant.name}?" if is_self else f"Remove {user.shown_name} from {tenant.name}?",
        sentences=(
            f"{'You see' if is_self else f'{user.shown_name} sees'} nothing of {tenant.name} any more.",
            "Access to its pages, REST and kubectl ends within a second.",
        ),
        button="Leave" if is_self else f"Remove {user.shown_name}",
        back=reverse("members", args=[tenant.slug]),
        work=work_of(actor, user, tenant.slug),
    )


def ending(actor: Actor, tenant: Tenant, account: ServiceAccount) -> Question:
    """What the end of a service account means; raises NotAllowed as the end itself."""
    service_accounts.require_keeper(actor, tenant)
    count = service_accounts.tokens_for(account).count()
    return Question(
        title=f"Delete {account.name}?",
        sentences=(
            f"Its tokens end at once ({count} live).",
            "Whatever acts with them is refused from then on.",
        ),
        button=f"Delete {account.name}",
        back=reverse("account", args=[tenant.slug, account.pk]),
        work=work_of(actor, account.user, tenant.slug),
    )


def without_registry(actor: Actor, tenant: Tenant, registry: str) -> Question:
    """What it means to remove a registry; raises NotFound, and NotAllowed as the removal itself."""
    registries.require_keeper(actor, tenant)
    row = logins.registry_of(tenant, registry)
    return Question(
        title=f"Remove the login of {row.registry}?",
        sentences=(
            f"Private images of {row.registry} cannot be pulled for {tenant.name} any more.",
            "What runs goes on; its next start fails where its image is private.",
            "The password cannot be had back: to use the registry again it is typed again.",
        ),
        button="Remove it",
        back=f"{reverse('members', args=[tenant.slug])}#registries",
    )


def _account(row: ServiceAccount) -> dict[str, Any]:
    return {"row": row, "role": service_accounts.current_role(row)}
