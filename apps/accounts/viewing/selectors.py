"""Which view a session is in, and who has looked at the portal as somebody. Reads only."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from apps.accounts.models import User, Viewing
from apps.accounts.specs import Actor, PlatformRole, ViewEnd
from apps.errors import NotAllowed

MOST_LISTED = 10


def view_of(key: UUID | str | None, session_key: str | None) -> Viewing | None:
    """The view that a session names, if it was begun in that session; it may be over, see `end_of`."""
    if key is None:
        return None
    try:
        rows = Viewing.objects.select_related("viewer", "person").filter(pk=key, session_key=session_key)
    except (ValidationError, ValueError, TypeError):
        return None
    return rows.first()


def end_of(view: Viewing, now: datetime, *, is_session_open: bool = True) -> str:
    """How the view is over (see `ViewEnd`); empty while it lasts: only as long as it could begin anew."""
    if view.ended_at is not None:
        return view.how
    if now >= view.ends_at:
        return ViewEnd.TIME
    if not view.person.is_active or view.person.platform_role == PlatformRole.PLATFORM:
        return ViewEnd.PERSON
    if not view.viewer.is_active or view.viewer.platform_role != PlatformRole.PLATFORM:
        return ViewEnd.VIEWER
    return "" if is_session_open else ViewEnd.SESSION


def lasting(keys: Collection[UUID], now: datetime) -> frozenset[UUID]:
    """Those of these views that last, their sessions left aside; one query, none for no keys."""
    if not keys:
        return frozenset()
    rows = Viewing.objects.select_related("viewer", "person").filter(pk__in=keys)
    return frozenset(row.pk for row in rows if not end_of(row, now))


def open_sessions(keys: Collection[str], now: datetime) -> frozenset[str]:
    """Those of these sessions that still open something."""
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=now)
    return frozenset(rows.values_list("session_key", flat=True))


def views_of(actor: Actor, person: User) -> QuerySet[Viewing]:
    """The last views of the portal as this person, for the person and for who sees people; raises
    NotAllowed.
    """
    if actor.user_id != person.pk and not actor.sees_everything:
        raise NotAllowed("Only the person and platform engineers see who looked at the portal as somebody.")
    rows = Viewing.objects.select_related("viewer").filter(person=person)
    return rows.order_by("-began_at", "pk")[:MOST_LISTED]
