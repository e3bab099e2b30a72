"""Leads invite people by mail address: at once where policy allows it, else once a platform engineer agrees.

The product sends no mail: the one-time link is shown once to whoever made the account, who sends it on.

RULE: an account is made before the tenant is locked. A sign-in locks in that order too (the platform's
record, then tenants), so that no two wait for each other.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from apps.accounts import passwords, people
from apps.accounts import policies as accounts_policies
from apps.accounts.models import User
from apps.accounts.selectors import account_of_mail, asker, person_by_mail
from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import MemberInvitation, Membership, Tenant
from apps.tenants.people.selectors import invitations
from apps.tenants.specs import InvitationStatus, Role
from apps.web.streams import events

ARRIVAL = system_actor("invitations")
"""Who makes a member of somebody who was approved before there was an account."""
MOST_PENDING = 50
"""Of a tenant: nobody reads more."""
TRIES = 3
LONGEST_ADDRESS = 254
_PLACE = "/spec/email"


@dataclass(frozen=True)
class Invited:
    """What became of an invitation. `link` is the one-time link's text, if an account was made: once."""

    row: MemberInvitation
    link: str = ""


@dataclass(frozen=True)
class _Account:
    user: User | None = None
    link: str = ""


@transaction.atomic
def invite(*, actor: Actor, tenant: Tenant, email: str, role: Role, now: datetime) -> Invited:
    """Makes a member of whoever has this address, or asks for it; the same again changes nothing.

    Rule: see `tenancy.require_lead`. Whoever has an account becomes a member at once; for others see
    `selectors.invitations.is_invited_freely`. What waits already gets the new role. At most `MOST_PENDING`
    wait in a tenant.
    """
    tenancy.require_lead(actor, tenant)
    address = _address(email)
    tenancy.require_live(tenant)
    entry = _Account(account_of_mail(address))
    is_free = invitations.is_invited_freely(actor, address)
    if is_free and entry.user is None and (actor.is_platform or person_by_mail(address) is None):
        entry = _account(actor, address, now)
    row = _pending(tenancy.locked(tenant), address)
    tenancy.require_live(row.tenant)
    if entry.user is not None:
        return _joined(actor, row, entry, role, now=now)
    is_agreed = is_free and not passwords.is_for_everybody()
    return Invited(_asked(actor, row, role, is_agreed=is_agreed, now=now))


@transaction.atomic
def approve(*, actor: Actor, invitation: MemberInvitation, reason: str = "", now: datetime) -> Invited:
    """Agrees: a member at once, with an account where there was none; without passwords here, a member from
    the first sign-in on. Whoever asked, and the leads, are told.

    Rule: see `require_decider`; only an open one; see `tenancy.require_live`. Who is a member by now stays in
    the role that they have.
    """
    require_decider(actor)
    _require_open(invitation)
    tenancy.require_live(invitation.tenant)
    entry = _account(actor, invitation.email, now)
    row = _locked(invitation)
    _require_open(row)
    tenancy.require_live(row.tenant)
    row.decided_by, row.decided_at, row.reason = actor.username, now, reason.strip()
    status = InvitationStatus.APPROVED
    if entry.user is not None:
        _become_member(actor, row, entry.user, now)
        row.user, status = entry.user, InvitationStatus.JOINED
    return Invited(_decided(actor, row, status, "approve", now=now), entry.link)


@transaction.atomic
def decline(*, actor: Actor, invitation: MemberInvitation, reason: str, now: datetime) -> MemberInvitation:
    """Says no, with a reason; whoever asked, and the leads, are told. Rule: as `approve`."""
    require_decider(actor)
    row = _locked(invitation)
    _require_open(row)
    if not reason.strip():
        raise Invalid([FieldProblem("/reason", "required", "Say why: the team reads it.")])
    row.decided_by, row.decided_at, row.reason = actor.username, now, reason.strip()
    return _decided(actor, row, InvitationStatus.DECLINED, "decline", now=now)


@transaction.atomic
def withdraw(*, actor: Actor, invitation: MemberInvitation, now: datetime) -> MemberInvitation:
    """Takes one back of which something is still to come. Rule: see `tenancy.require_lead`."""
    tenancy.require_lead(actor, invitation.tenant)
    row = _locked(invitation)
    if row.status not in (InvitationStatus.OPEN, InvitationStatus.APPROVED):
        raise _over(row)
    return _closed(actor, row, InvitationStatus.WITHDRAWN, "withdraw", now=now)


@transaction.atomic
def arrive(user: User, *, email: str, now: datetime) -> None:
    """Makes a member of somebody who signed in and whose address was approved.

    Rule: the caller knows that the address is the person's. A tenant that takes nobody now (archived, about
    to go) keeps its invitation; a role that the person has already stays.
    """
    waiting = MemberInvitation.objects.filter(email=email.lower(), status=InvitationStatus.APPROVED)
    for each in waiting.filter(tenant__deleted_at=None).select_related("tenant").order_by("tenant"):
        row = _locked(each)
        if row.status != InvitationStatus.APPROVED:
            continue
        with suppress(Conflict):
            tenancy.require_live(row.tenant)
            _become_member(ARRIVAL, row, user, now)
            row.user = user
            _closed(ARRIVAL, row, InvitationStatus.JOINED, "join", now=now)


def require_decider(actor: Actor) -> None:
    """Rule: platform engineers decide, as they alone make accounts otherwise; raises NotAllowed."""
    accounts_policies.require_platform(actor)


def _account(actor: Actor, email: str, now: datetime) -> _Account:
    """Whose address it is, made if it is nobody's and passwords are usual. Of two at once one makes it and
    the other finds it.
    """
    refusal = ""
    for _ in range(TRIES):
        user = account_of_mail(email)
        if user is not None or not passwords.is_for_everybody():
            return _Account(user)
        try:
            return _Account(*people.invite_address(actor=actor, email=email, now=now))
        except AlreadyExists as error:
            refusal = error.detail
    raise AlreadyExists(refusal, hint="Enable that account if it is closed, or decline.")


def _address(text: str) -> str:
    address = text.strip().lower()
    try:
        validate_email(address)
    except ValidationError as error:
        raise Invalid([FieldProblem(_PLACE, "invalid_value", " ".join(error.messages))]) from None
    if len(address) > LONGEST_ADDRESS:
        raise Invalid([FieldProblem(_PLACE, "out_of_range", f"At most {LONGEST_ADDRESS} characters.")])
    return address


def _pending(tenant: Tenant, email: str) -> MemberInvitation:
    """The one that waits for this address, or a new one that is not stored yet."""
    row = invitations.pending_to(tenant).filter(email=email).first()
    row = row or MemberInvitation(email=email)
    row.tenant = tenant
    return row


def _joined(actor: Actor, row: MemberInvitation, entry: _Account, role: Role, *, now: datetime) -> Invited:
    user = entry.user
    assert user is not None  # noqa: S101 - for the checker of types: the caller has asked
    same = MemberInvitation.objects.filter(tenant=row.tenant, user=user, role=role)
    last = same.filter(status=InvitationStatus.JOINED).order_by("-created_at").first()
    is_new = row._state.adding
    is_member = Membership.objects.filter(tenant=row.tenant, user=user, role=role).exists()
    if is_new and is_member and last is not None:
        return Invited(last)
    tenancy.set_member(actor=actor, tenant=row.tenant, username=user.username, role=role, now=now)
    row.role, row.user = role, user
    if is_new:
        row.asked_by, row.created_at = asker(actor), now
    return Invited(_closed(actor, row, InvitationStatus.JOINED, "join", now=now), entry.link)


def _asked(
    actor: Actor, row: MemberInvitation, role: Role, *, is_agreed: bool, now: datetime
) -> MemberInvitation:
    """Stored as open or, where nobody has to decide, as approved; the same as before changes nothing."""
    is_new = row._state.adding
    before = (None, None) if is_new else (str(row.status), str(row.role))
    if is_new:
        _require_room(row.tenant)
        row.asked_by, row.created_at = asker(actor), now
    row.status = InvitationStatus.APPROVED if is_agreed else row.status
    row.role = role
    after = (str(row.status), str(row.role))
    if before == after:
        return row
    row.generation += 0 if is_new else 1
    row.save()
    if is_new and not is_agreed:
        _tell_deciders(actor, row, now)
    changes = {name: list(pair) for name, *pair in zip(("status", "role"), before, after, strict=True)}
    _note(actor, row, "ask", changes, now=now)
    return row


def _tell_deciders(actor: Actor, row: MemberInvitation, now: datetime) -> None:
    role = Role(row.role).label.lower()
    message = f"{actor.username} asks to invite {row.email} to {row.tenant.slug} as {role}."
    url = f"/console/requests/invitations/{row.pk}/"
    _tell(row, invitations.deciders(), kind=Kind.INVITATION_ASKED, url=url, message=message, now=now)


def _require_room(tenant: Tenant) -> None:
    if invitations.pending_to(tenant).count() >= MOST_PENDING:
        raise Conflict(
            f"{MOST_PENDING} invitations of {tenant.slug} wait already.",
            hint="Withdraw one, or ask a platform engineer to decide on them.",
        )


def _become_member(actor: Actor, row: MemberInvitation, user: User, now: datetime) -> None:
    if not Membership.objects.filter(tenant=row.tenant, user=user).exists():
        tenancy.set_member(
            actor=actor, tenant=row.tenant, username=user.username, role=Role(row.role), now=now
        )


def _decided(
    actor: Actor, row: MemberInvitation, status: InvitationStatus, verb: str, *, now: datetime
) -> MemberInvitation:
    said = "declined" if status is InvitationStatus.DECLINED else "approved"
    because = f": {row.reason}" if row.reason else "."
    message = f"{actor.username} {said} the invitation of {row.email} to {row.tenant.slug}{because}"
    concerned = [pk for pk in (row.asked_by_id, *invitations.leads(row.tenant)) if pk != actor.user_id]
    url = f"/t/{row.tenant.slug}/members/"
    _tell(row, concerned, kind=Kind.INVITATION_DECIDED, url=url, message=message, now=now)
    return _closed(actor, row, status, verb, now=now)


def _closed(
    actor: Actor, row: MemberInvitation, status: InvitationStatus, verb: str, *, now: datetime
) -> MemberInvitation:
    before = None if row._state.adding else str(row.status)
    if before is not None:
        row.generation += 1
    row.status = status
    row.save()
    changes = {
        "status": [before, str(status)],
        "role": [row.role, row.role],
        "asked_by": [row.asked_by.username] * 2,
        "username": [None, row.user.username if row.user else None],
    }
    _note(actor, row, verb, changes, now=now)
    return row


def _note(actor: Actor, row: MemberInvitation, verb: str, changes: dict[str, Any], *, now: datetime) -> None:
    audit.record(actor, f"invitation.{verb}", row, now=now, changes=changes, reason=row.reason)
    slug = row.tenant.slug
    data = {"type": "invitation.updated", "object": "invitation", "id": str(row.pk), "tenant": slug}
    events.publish([f"tenant:{slug}", "console"], part="invitations needs", data=data)


def _tell(
    row: MemberInvitation, users: Sequence[UUID], *, kind: Kind, url: str, message: str, now: datetime
) -> None:
    notices.tell(users, kind=kind, message=message, url=url, at=now, tenant=row.tenant.slug)


def _locked(invitation: MemberInvitation) -> MemberInvitation:
    """The row as it is now; its tenant is locked, as by every writer of invitations."""
    tenant = tenancy.locked(invitation.tenant)
    row = MemberInvitation.objects.select_related("asked_by", "user").get(pk=invitation.pk)
    row.tenant = tenant
    return row


def _require_open(row: MemberInvitation) -> None:
    if row.status != InvitationStatus.OPEN:
        raise _over(row)


def _over(row: MemberInvitation) -> Conflict:
    return Conflict(f"It is {row.get_status_display().lower()} already.", hint="Invite the address anew.")
