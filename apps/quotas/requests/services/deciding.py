"""Quota requests: a lead asks, somebody else decides, everybody concerned can read why.

An approved request becomes a grant (with a duration) or a change of the quota (without one).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.second_person import require_second_person
from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, OfferNotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas import policies
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.allowances.services import granting, quota_changes
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.catalogue.selectors import offers
from apps.quotas.models import Offer, QuotaRequest, RequestNote
from apps.quotas.requests.services import forecast
from apps.quotas.specs import RequestKind, RequestStatus
from apps.quotas.wake.selectors import audience
from apps.quotas.wake.services import queue_hints
from apps.ranges import GRANT_SECONDS, MORE_DEVICES
from apps.tenants.models import Tenant

REMINDED_AFTER = timedelta(days=2)


@dataclass(frozen=True)
class RequestWish:
    """`count` devices more, guaranteed or borrowable; a duration makes a grant of it, None is for good."""

    kind: RequestKind
    count: int
    reason: str
    duration_seconds: int | None = None


@transaction.atomic
def ask(*, actor: Actor, tenant: Tenant, offer: Offer, wish: RequestWish, now: datetime) -> QuotaRequest:
    """A new request, told to those who may decide.

    Rule: leads of the tenant and platform engineers, with a reason; of an offer of the tenant's cluster that
    its trust level allows. What is borrowed cannot be asked for by the hour.
    """
    require_asker(actor, tenant)
    _check(tenant, offer, wish, now)
    row = QuotaRequest.objects.create(
        tenant=tenant, offer=offer, kind=wish.kind, count=wish.count, reason=wish.reason.strip(),
        duration_seconds=wish.duration_seconds, asked_by=User.objects.get(username=actor.username),
        created_at=now,
    )  # fmt: skip
    _note(row, actor, "asked", row.reason, now=now)
    message = f"{actor.username} asks for {words_of(row)}: {row.reason}"
    deciders = [pk for pk in audience.deciders(tenant) if pk != actor.user_id]
    _tell(row, deciders, Kind.QUOTA_ASKED, message, now=now)
    changes = {"status": [None, row.status]}
    audit.record(actor, "quota_request.ask", row, now=now, changes=changes, reason=row.reason)
    return row


@transaction.atomic
def approve(
    *, actor: Actor, request: QuotaRequest, count: int | None, reason: str, now: datetime
) -> QuotaRequest:
    """Gives what was asked, or less of it (`count`), from now on; the asker is told.

    Rule: managers of the department, within what the cluster has, and platform engineers; never one's own
    request; only an open one.
    """
    row = _to_decide(actor, request, now)
    given = row.count if count is None else count
    if not 1 <= given <= row.count:
        words = f"Give between 1 and the {row.count} asked for."
        raise Invalid([FieldProblem("/count", "out_of_range", words)])
    row.given = given
    if row.duration_seconds:
        wish = GrantWish(given, now + timedelta(seconds=row.duration_seconds), now, row.reason)
        row.grant = granting.give_grant(actor=actor, tenant=row.tenant, offer=row.offer, wish=wish, now=now)
    else:
        _raise_quota(actor, row, given, now)
    return _decided(actor, row, RequestStatus.APPROVED, reason, now=now)


@transaction.atomic
def decline(*, actor: Actor, request: QuotaRequest, reason: str, now: datetime) -> QuotaRequest:
    """Says no, with a reason; the asker is told. Rule: as `approve`."""
    row = _to_decide(actor, request, now)
    if not reason.strip():
        raise Invalid([FieldProblem("/reason", "required", "Say why: the team reads it.")])
    return _decided(actor, row, RequestStatus.DECLINED, reason, now=now)


@transaction.atomic
def withdraw(*, actor: Actor, request: QuotaRequest, now: datetime) -> QuotaRequest:
    """Takes an open request back. Rule: who asked, and leads of the tenant."""
    row = _locked(request)
    if actor.user_id != row.asked_by_id:
        require_asker(actor, row.tenant)
    _require_open(row)
    return _closed(actor, row, RequestStatus.WITHDRAWN, "", now=now)


@transaction.atomic
def comment(*, actor: Actor, request: QuotaRequest, text: str, now: datetime) -> QuotaRequest:
    """One more line of the history; the other side is told. Rule: leads of the tenant and who may decide."""
    require_speaker(actor, request.tenant)
    row = _locked(request)
    if not text.strip():
        raise Invalid([FieldProblem("/text", "required", "Say something.")])
    _note(row, actor, "said", text.strip(), now=now)
    message = f"{actor.username} on {words_of(row)}: {text.strip()}"
    others = [row.asked_by_id]
    if actor.user_id == row.asked_by_id:
        others = audience.deciders(row.tenant)
    _tell(row, [pk for pk in others if pk != actor.user_id], Kind.QUOTA_SAID, message, now=now)
    return _touched(actor, row, "quota_request.say", {}, now=now)


def remind(now: datetime) -> int:
    """Tells those who may decide of requests that wait, after two days and every two; answers how many.

    Rule: none of a tenant that is being deleted: its pages are gone with it.
    """
    late = QuotaRequest.objects.filter(
        status=RequestStatus.OPEN, created_at__lte=now - REMINDED_AFTER, tenant__deleting_at=None
    )
    told = 0
    for row in late.exclude(reminded_at__gt=now - REMINDED_AFTER).select_related(
        "tenant__department", "offer"
    ):
        with transaction.atomic():
            QuotaRequest.objects.filter(pk=row.pk).update(reminded_at=now)
            message = f"{words_of(row)} was asked for at {row.created_at:%-d %b}; nobody has decided yet."
            people = [pk for pk in audience.deciders(row.tenant) if pk != row.asked_by_id]
            _tell(row, people, Kind.QUOTA_ASKED, message, now=now)
            told += 1
    return told


def words_of(row: QuotaRequest) -> str:
    """`4 more H100 whole guaranteed for vision, for 3 days`."""
    how = "guaranteed" if row.kind == RequestKind.GUARANTEED else "to borrow"
    words = f"{row.count} more {row.offer.name} {how} for {row.tenant.slug}"
    return f"{words}, for {span(row.duration_seconds)}" if row.duration_seconds else words


def span(seconds: int) -> str:
    """Whole days where they are, else hours."""
    size, word = (86400, "day") if seconds % 86400 == 0 else (3600, "hour")
    count = max(1, round(seconds / size))
    return f"{count} {word}{'' if count == 1 else 's'}"


def require_asker(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may ask for quota of this tenant."""
    if not policies.can_ask_for_quota(actor, tenant):
        raise NotAllowed(f"Only a lead of {tenant.slug} may ask for its quota.")


def require_decider(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may decide on requests of this tenant."""
    if not policies.can_decide(actor, tenant):
        raise NotAllowed("Only a platform engineer or a manager of the department decides on requests.")


def require_speaker(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor takes part in this tenant's requests."""
    if not policies.can_decide(actor, tenant):
        require_asker(actor, tenant)


def _check(tenant: Tenant, offer: Offer, wish: RequestWish, now: datetime) -> None:
    problems = []
    if not MORE_DEVICES.holds(wish.count):
        words = f"Ask for 1 to {MORE_DEVICES.most} devices."
        problems.append(FieldProblem("/spec/count", "out_of_range", words))
    if not wish.reason.strip():
        problems.append(FieldProblem("/spec/reason", "required", "Say what it is for."))
    seconds = wish.duration_seconds
    if seconds is not None and not GRANT_SECONDS.holds(seconds):
        words = f"From an hour to {granting.LONGEST.days} days; leave it out if it should be permanent."
        problems.append(FieldProblem("/spec/duration_seconds", "out_of_range", words))
    elif seconds is not None and wish.kind is RequestKind.BORROW:
        words = "Only a guarantee can have an end; ask for borrowing without one."
        problems.append(FieldProblem("/spec/duration_seconds", "invalid_value", words))
    problems += entitlements.misfits(tenant, offer, now=now)
    if problems:
        raise Invalid(problems)
    if refusal := offers.refusal_of(offer, tenant):
        raise OfferNotAllowed(refusal, hint="Raise the tenant's trust level, or take another offer.")


def _to_decide(actor: Actor, request: QuotaRequest, now: datetime) -> QuotaRequest:
    row = _locked(request)
    require_decider(actor, row.tenant)
    require_second_person(actor, asked_by=row.asked_by.username, now=now, may_have_invited=True)
    _require_open(row)
    return row


def _raise_quota(actor: Actor, row: QuotaRequest, given: int, now: datetime) -> None:
    # Before its quota is read: what another approval adds at the same time stays.
    Tenant.objects.select_for_update().get(pk=row.tenant_id)
    if row.kind == RequestKind.GUARANTEED:
        granting.require_stock(actor, row.tenant, row.offer, given, since=now)
    wanted = forecast.raised(row, given)
    # A manager decides, but quota itself is the platform's to set: the request's own record names who did.
    who = actor if policies.can_set_quota(actor, row.tenant) else system_actor("approval")
    quota_changes.set_quota(actor=who, tenant=row.tenant, offer=row.offer, amounts=wanted, now=now)


def _decided(
    actor: Actor, row: QuotaRequest, status: RequestStatus, reason: str, *, now: datetime
) -> QuotaRequest:
    row.decided_by, row.decided_at = actor.username, now
    what = words_of(row)
    if status is RequestStatus.APPROVED and row.given != row.count:
        what = f"{row.given} of {what}"
    because = f": {reason.strip()}" if reason.strip() else "."
    message = f"{actor.username} {status.label.lower()} {what}{because}"
    _tell(row, [row.asked_by_id, *audience.leads(row.tenant)], Kind.QUOTA_DECIDED, message, now=now)
    return _closed(actor, row, status, reason, now=now)


def _closed(
    actor: Actor, row: QuotaRequest, status: RequestStatus, reason: str, *, now: datetime
) -> QuotaRequest:
    before, row.status = row.status, status
    _note(row, actor, str(status), reason.strip(), now=now)
    verb = {"approved": "approve", "declined": "decline", "withdrawn": "withdraw"}[str(status)]
    changes = {
        "status": [str(before), str(status)],
        "given": [None, row.given],
        "asked_by": [row.asked_by.username] * 2,
        "decided_by": [None, row.decided_by or None],
    }
    return _touched(actor, row, f"quota_request.{verb}", changes, now=now)


def _touched(
    actor: Actor, row: QuotaRequest, action: str, changes: dict[str, Any], *, now: datetime
) -> QuotaRequest:
    row.generation += 1
    row.save()
    queue_hints.tell_pages(row.tenant, str(row.pk))
    audit.record(actor, action, row, now=now, changes=changes, reason=row.reason)
    return row


def _locked(request: QuotaRequest) -> QuotaRequest:
    related = ("tenant__department", "tenant__cluster", "offer__flavor", "asked_by", "grant")
    rows = QuotaRequest.objects.select_for_update(of=("self",)).select_related(*related)
    row = rows.filter(pk=request.pk).first()
    if row is None:
        raise NotFound
    return row


def _require_open(row: QuotaRequest) -> None:
    if row.status != RequestStatus.OPEN:
        raise Conflict(f"It is {row.get_status_display().lower()} already.", hint="Ask anew.")


def _note(row: QuotaRequest, actor: Actor, what: str, text: str, *, now: datetime) -> None:
    RequestNote.objects.create(request=row, at=now, author=actor.username, what=what, text=text[:1000])


def _tell(row: QuotaRequest, people: Sequence[UUID], kind: Kind, message: str, *, now: datetime) -> None:
    """Who may decide is led to where one decides, the team to its own page."""
    slug = row.tenant.slug
    deciders = set(audience.deciders(row.tenant))
    for url, told in (
        (f"/console/requests/{row.pk}/", [pk for pk in people if pk in deciders]),
        (f"/t/{slug}/quota/requests/{row.pk}/", [pk for pk in people if pk not in deciders]),
    ):
        notices.tell(told, kind=kind, message=message, url=url, at=now, tenant=slug)
