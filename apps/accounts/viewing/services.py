"""Beginning and ending a view. That it is read-only is the portal's gate (`portal.viewing`) and, beneath it,
the audit record, which writes nothing of an actor who is viewed.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from apps.accounts import policies
from apps.accounts.models import User, Viewing
from apps.accounts.selectors import asker
from apps.accounts.specs import LONGEST_REASON, Actor, ViewEnd
from apps.accounts.viewing.selectors import end_of, open_sessions
from apps.audit import services as audit
from apps.errors import FieldProblem, Invalid
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.web.streams import events


@transaction.atomic
def begin(*, actor: Actor, person: User, session_key: str, reason: str, now: datetime) -> Viewing:
    """From now on this session sees the portal as the person, for `view_as_minutes` at most.

    Rule: see `policies.require_viewer`; the reason is one line, and the person reads it. Raises NotAllowed,
    Conflict and Invalid.
    """
    policies.require_viewer(actor, person)
    words = _checked(reason)
    ends_at = now + timedelta(minutes=settings.CONFIG.view_as_minutes)
    view = Viewing.objects.create(
        viewer=asker(actor),
        person=person,
        session_key=session_key,
        reason=words,
        began_at=now,
        ends_at=ends_at,
    )
    changes = {"until": [None, ends_at]}
    audit.record(actor, "user.view-as", person, now=now, reason=words, changes=changes)
    return view


@transaction.atomic
def end(view: Viewing, *, how: ViewEnd, now: datetime, request_id: str = "") -> bool:
    """Ends a view, records how and tells the person; answers whether it lasted until now.

    The record's actor is the engineer, however it ended: what the person reads names who looked.
    """
    at = min(now, view.ends_at)
    if not Viewing.objects.filter(pk=view.pk, ended_at=None).update(ended_at=at, how=how):
        return False
    view.ended_at, view.how = at, how
    viewer = view.viewer
    who = Actor(username=viewer.username, user_id=viewer.pk, request_id=request_id)
    changes = {"how": [None, how.label], "from": [None, view.began_at], "until": [view.ends_at, at]}
    audit.record(who, "user.view-as-end", view.person, now=now, reason=view.reason, changes=changes)
    notices.tell([view.person_id], kind=Kind.VIEWED, message=_said(view, at), url="/me/sign-in/", at=now)
    # Streams that were opened as the person end with it.
    events.access_changed(view.person_id)
    return True


def end_in(session_key: str | None, *, how: ViewEnd, now: datetime, request_id: str = "") -> None:
    """Ends what this session is viewing, if anything."""
    for view in _open().filter(session_key=session_key):
        end(view, how=how, now=now, request_id=request_id)


def end_lapsed(now: datetime) -> int:
    """Ends every view that is over though nobody said so; answers how many. The engineer may have gone."""
    views = list(_open())
    alive = open_sessions({view.session_key for view in views}, now) if views else frozenset()
    count = 0
    for view in views:
        how = end_of(view, now, is_session_open=view.session_key in alive)
        count += bool(how) and end(view, how=ViewEnd(how), now=now)
    return count


def _open() -> QuerySet[Viewing]:
    return Viewing.objects.select_related("viewer", "person").filter(ended_at=None)


def _checked(reason: str) -> str:
    words = " ".join(reason.split())
    if 1 <= len(words) <= LONGEST_REASON:
        return words
    raise Invalid(
        [FieldProblem("/reason", "out_of_range", f"Give a reason of 1 to {LONGEST_REASON} letters.")]
    )


def _said(view: Viewing, at: datetime) -> str:
    who, since = f"{view.viewer.shown_name} (platform engineer)", f"{view.began_at:%H:%M}"
    return f"{who} looked at the portal as you, {since} to {at:%H:%M} UTC: {view.reason}"
