"""REST for invitations of mail addresses to tenants."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import selectors
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import MemberInvitation
from apps.tenants.people.selectors import invitations
from apps.tenants.people.services import inviting
from apps.tenants.people.services.inviting import Invited
from apps.tenants.specs import InvitationStatus, Role
from portal.api.base.documents import VerbView, acts
from portal.api.base.references import TENANT, asked_tenant
from portal.api.base.views import ApiView, etag, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.declared.queries import Words
from portal.api.people.invitations_bodies import (
    InvitationBody,
    InvitedMemberBody,
    NewInvitationSerializer,
    invitation_body,
    invited_body,
)

STATUSES = {status.label: str(status) for status in InvitationStatus}
PHASE = Words("phase", "Only in these phases.", tuple(STATUSES))


class InvitationsView(ApiView):
    """Invitations to the tenants whose members the caller decides on."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (TENANT, PHASE)

    @pages(InvitationBody)
    def get(self, request: Request) -> Response:
        """Newest first; `?tenant=`, `?phase=Open`."""
        tenant, rows = asked_tenant(self, request), invitations.invitations_for(self.actor)
        rows = rows.filter(tenant=tenant) if tenant else rows
        if (asked := PHASE.of(request)) is not None:
            rows = rows.filter(status__in=[STATUSES[each] for each in asked])
        return paginate(request, rows, invitation_body)


class TenantInvitationsView(ApiView):
    """Invitations to one tenant."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (PHASE,)

    @named("tenant_invitations_list")
    @pages(InvitationBody)
    def get(self, request: Request, key: str) -> Response:
        """Newest first; none for who does not decide on its members. `?phase=Open`."""
        tenant = selectors.tenant_for(self.actor, key)
        rows = invitations.invitations_for(self.actor).filter(tenant=tenant)
        if (asked := PHASE.of(request)) is not None:
            rows = rows.filter(status__in=[STATUSES[each] for each in asked])
        return paginate(request, rows, invitation_body)

    @named("tenant_invitations_create")
    @takes(NewInvitationSerializer)
    @answers(201, InvitedMemberBody, etag=True, location=True)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Invite a mail address.

        Whoever has an account is a member at once. For others an account is made if policy allows the
        address's domain, or a platform engineer asks: its one-time link is in this answer only. Else a
        platform engineer approves it first. Asking again changes the role of what waits.
        """

        def invite() -> Invited:
            tenant = selectors.tenant_for(self.actor, key)
            tenancy.require_lead(self.actor, tenant)
            asked = NewInvitationSerializer.checked(request.data)["spec"]
            return inviting.invite(
                actor=self.actor,
                tenant=tenant,
                email=asked["email"],
                role=Role(asked["role"]),
                now=timezone.now(),
            )

        return idempotent(request, lambda: written(request, invite, _invited), secrets=("link",))


class InvitationView(ApiView):
    """One invitation."""

    scope_group = ScopeGroup.PEOPLE

    @answers(200, InvitationBody, etag=True)
    def get(self, _request: Request, key: str) -> Response:
        """By id."""
        row = invitations.invitation_for(self.actor, key)
        return Response(invitation_body(row), headers={"ETag": etag(row)})


class _Act(VerbView[MemberInvitation]):
    """One act on an invitation; the right is checked before the body is read."""

    scope_group = ScopeGroup.PEOPLE
    may_match = ("POST",)
    find = staticmethod(invitations.invitation_for)
    body = staticmethod(invitation_body)

    def require(self, row: MemberInvitation) -> None:  # noqa: ARG002 - as the others
        """As the service that decides."""
        inviting.require_decider(self.actor)


@acts(
    InvitedMemberBody,
    "already_exists",
    "wrong_phase",
    post="Approve: the one-time link, if an account was made, is in this answer only.",
)
class ApproveView(_Act):
    """Agreeing."""

    secrets = ("link",)
    _link = ""

    def act(self, row: MemberInvitation, asked: Mapping[str, Any]) -> MemberInvitation:
        """With a reason, if one is given."""
        invited = inviting.approve(
            actor=self.actor, invitation=row, reason=asked["reason"], now=timezone.now()
        )
        self._link = invited.link
        return invited.row

    def shown(self, row: MemberInvitation) -> InvitedMemberBody:
        """With the link."""
        return invited_body(Invited(row, self._link))


@acts(InvitationBody, "wrong_phase", post="Decline, with a reason.")
class DeclineView(_Act):
    """Saying no."""

    def act(self, row: MemberInvitation, asked: Mapping[str, Any]) -> MemberInvitation:
        """With the reason."""
        return inviting.decline(actor=self.actor, invitation=row, reason=asked["reason"], now=timezone.now())


@acts(InvitationBody, "wrong_phase", post="Withdraw one that is open, or approved and not yet joined.")
class WithdrawView(_Act):
    """Taking it back."""

    def require(self, row: MemberInvitation) -> None:
        """Who decides on the tenant's members."""
        tenancy.require_lead(self.actor, row.tenant)

    def act(self, row: MemberInvitation, asked: Mapping[str, Any]) -> MemberInvitation:  # noqa: ARG002 - as the others
        """Without further input."""
        return inviting.withdraw(actor=self.actor, invitation=row, now=timezone.now())


def _invited(invited: Invited) -> Response:
    return made(invited_body(invited), f"/api/v1/invitations/{invited.row.pk}", invited.row)
