"""The browsers in which somebody is signed in: listed, and ended at once."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.accounts import policies
from apps.accounts.models import PersonSession, User
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import NotAllowed
from apps.web.requests.client_address import client_network
from apps.web.requests.lookups import by_id
from apps.web.streams import events


def note(request: HttpRequest, user: User, *, way: str, now: datetime) -> None:
    """Keeps that this browser is signed in from now on."""
    if request.session.session_key is None:
        request.session.save()
    told = {
        "user": user,
        "way": way,
        "address": client_network(request)[:64],
        "browser": request.headers.get("User-Agent", "").replace("\0", "")[:200],
        "started_at": now,
        "seen_at": now,
    }
    PersonSession.objects.update_or_create(session_key=request.session.session_key, defaults=told)


def forget(session_key: str | None) -> None:
    """Its browser signed out."""
    PersonSession.objects.filter(session_key=session_key).delete()


def sessions_of(user: User, now: datetime) -> QuerySet[PersonSession]:
    """The person's sessions that still open something."""
    live = Session.objects.filter(expire_date__gt=now).values("session_key")
    return PersonSession.objects.filter(user=user, session_key__in=live)


def sessions_for(actor: Actor, user: User, now: datetime) -> QuerySet[PersonSession]:
    """The same, for the person and for who sees people; raises NotAllowed."""
    if actor.user_id != user.pk and not actor.sees_everything:
        raise NotAllowed("Only the person and platform engineers see where somebody is signed in.")
    return sessions_of(user, now)


@transaction.atomic
def end(*, actor: Actor, user: User, which: UUID | str, now: datetime) -> None:
    """Signs one browser out. Rule: see `end_all`. Raises NotFound for one that is over."""
    require_ender(actor, user)
    _end(actor, user, [by_id(sessions_of(user, now), which)], now)


@transaction.atomic
def end_all(*, actor: Actor, user: User, now: datetime, but: str = "") -> int:
    """Signs every browser of somebody out, but the one with the session key `but`; answers how many.

    Rule: everybody for themselves, and who may close the account. Open streams end with them.
    """
    require_ender(actor, user)
    rows = list(sessions_of(user, now).exclude(session_key=but))
    _end(actor, user, rows, now)
    return len(rows)


def require_ender(actor: Actor, user: User) -> None:
    """Rule: see `end_all`; raises NotAllowed."""
    if actor.user_id != user.pk:
        policies.require_keeper_of(actor, user)


def _end(actor: Actor, user: User, rows: Collection[PersonSession], now: datetime) -> None:
    if not rows:
        return
    keys = [row.session_key for row in rows]
    Session.objects.filter(session_key__in=keys).delete()
    PersonSession.objects.filter(session_key__in=keys).delete()
    events.access_changed(user.pk)
    audit.record(actor, "session.end", user, now=now, changes={"ended": [len(rows), 0]})


def prune(now: datetime) -> None:
    """Forgets what is over: sessions beyond their end, and what was kept of those that are gone."""
    Session.objects.filter(expire_date__lte=now).delete()
    PersonSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
