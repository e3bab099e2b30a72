"""The console's page of one invitation: parse, call, present."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from apps.accounts import passwords
from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants.models import MemberInvitation
from apps.tenants.people.selectors import invitations
from apps.tenants.people.services import inviting
from apps.tenants.selectors import managed_by
from apps.tenants.specs import InvitationStatus
from portal.pages.console.people.invitation_forms import DecideForm
from portal.pages.parts.answers import link_of, require_form
from portal.pages.parts.form_pages import form_page, secret_page

TEMPLATE = "console/people/invitation.html"


@never_cache
@require_form
def decide_page(request: HttpRequest, invitation: UUID) -> HttpResponse:
    """Who is wanted where; a POST approves, and shows the one-time link once, or declines."""
    actor = actor_of(request)
    row = _found(actor, invitation)
    form = DecideForm(request.POST or None)

    def approve() -> dict[str, Any]:
        reason, now = form.cleaned_data["reason"], timezone.now()
        invited = inviting.approve(actor=actor, invitation=row, reason=reason, now=now)
        return {"invited": invited.row, "link": link_of(invited)}

    def decline() -> str:
        reason = form.cleaned_data["reason"]
        inviting.decline(actor=actor, invitation=row, reason=reason, now=timezone.now())
        return reverse("console-requests")

    if request.method == "POST":
        inviting.require_decider(actor)
    if form.is_valid() and form.cleaned_data["decision"] == DecideForm.APPROVE:
        return secret_page(request, TEMPLATE, lambda: _shown(actor, invitation), form=form, make=approve)
    return form_page(request, TEMPLATE, lambda: _shown(actor, invitation), form=form, make=decline)


def _found(actor: Actor, invitation: UUID) -> MemberInvitation:
    """The console is there for platform engineers, auditors and managers."""
    if not actor.sees_everything and not managed_by(actor):
        raise NotFound
    return invitations.invitation_for(actor, invitation)


def _shown(actor: Actor, invitation: UUID) -> dict[str, Any]:
    row = _found(actor, invitation)
    is_open = row.status == InvitationStatus.OPEN
    return {
        "row": row,
        "words": InvitationStatus(row.status).sentence,
        "is_open": is_open,
        "makes_account": passwords.is_for_everybody(),
        "may_decide": is_open and actor.is_platform,
    }
