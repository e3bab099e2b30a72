"""Invitations to tenants as an actor sees them, and who decides on them. Reads only."""

from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.specs import Actor, PlatformRole
from apps.tenants import policies
from apps.tenants.models import MemberInvitation, Membership, Tenant
from apps.tenants.specs import PENDING_INVITATION, Role
from apps.web.requests.lookups import by_id


def invitations_for(actor: Actor) -> QuerySet[MemberInvitation]:
    """Those to the tenants whose members the actor decides on; all for who sees every tenant."""
    rows = MemberInvitation.objects.select_related("tenant__department", "asked_by", "user")
    return rows.filter(tenant__in=policies.kept_tenants(actor))


def invitation_for(actor: Actor, key: str | UUID) -> MemberInvitation:
    """One by id, if the actor sees it; raises NotFound."""
    return by_id(invitations_for(actor), key)


def pending_to(tenant: Tenant) -> QuerySet[MemberInvitation]:
    """Those to the tenant of which something is still to come."""
    return MemberInvitation.objects.filter(tenant=tenant, status__in=PENDING_INVITATION)


def pending_for(actor: Actor, tenant: Tenant, *, decides: bool) -> Iterable[MemberInvitation]:
    """The same, oldest first, for who decides on the tenant's members and who watches; none for others."""
    if not decides and not actor.watches_tenants:
        return ()
    return pending_to(tenant).select_related("asked_by").order_by("created_at")


def is_invited_freely(actor: Actor, email: str) -> bool:
    """Whether nobody has to approve: policy allows the address's domain, exactly as it is set, or the actor
    could approve it.
    """
    return actor.is_platform or email.rpartition("@")[2] in settings.CONFIG.invitable


def deciders() -> list[UUID]:
    """The platform engineers, who are told of what waits."""
    rows = User.objects.filter(platform_role=PlatformRole.PLATFORM, is_active=True, is_service=False)
    return list(rows.values_list("pk", flat=True))


def leads(tenant: Tenant) -> list[UUID]:
    """The tenant's leads, who are told of what was decided."""
    rows = Membership.objects.filter(tenant=tenant, role=Role.LEAD, user__is_active=True)
    return list(rows.filter(user__is_service=False).values_list("user", flat=True))
