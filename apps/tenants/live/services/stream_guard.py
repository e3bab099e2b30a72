"""Ends every stream within a second once its right ends or changes.

One query per process, at least twice a second, reads the standing of all listeners. It needs no Redis and no
notification. A stream's own right is only checked again if that standing has changed.
"""

import asyncio
import contextvars
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.contrib.sessions.models import Session
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.accounts.models import ApiToken, User
from apps.accounts.specs import Actor
from apps.accounts.viewing.selectors import lasting
from apps.errors import DomainError
from apps.tenants.models import Membership, Tenant
from apps.web.stores import outage

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.4
ASK_SECONDS = 15.0
"""The right itself is asked that often even so: it may hang on more than the standing of a person."""

Right = Callable[[Actor], Hashable]
Again = Callable[[Credential], Actor]
_EYES = ThreadPoolExecutor(1, "guarding")
"""A thread of its own: a look never waits behind the requests of those it guards."""


@dataclass(frozen=True)
class Thing:
    """What a right hangs on besides its person. `read` tells the standing of all such things at one look."""

    read: Callable[[Collection[Any]], Mapping[Any, Hashable]]
    key: Hashable


class Guard:
    """See `streaming.Guard`. `right` says what the actor may hear here and in which role, and raises
    as the view would; opening and every look ask it alike, and another answer ends the stream. `again`: who
    the credential's person is now.
    """

    def __init__(
        self, credential: Credential, right: Right, thing: Thing | None = None, again: Again = actors.again
    ) -> None:
        self.credential, self._right, self.thing, self._again = credential, right, thing, again
        # In this order: what ends while it opens is seen by the first look.
        self._standing = _looked([self])[self]
        self._opened_with = self._ask()

    @property
    def person(self) -> UUID:
        """Whose stream it is."""
        return self.credential.user

    async def over(self) -> None:
        """Comes back when the right is over."""
        await _board().listen(self)

    def hurry(self) -> None:
        """Somebody says that access changed: look now."""
        _board().hurry.set()

    def holds(self, standing: Hashable) -> bool:
        """Whether the right is the one that the stream was opened with; asked only where it may not be."""
        if standing == self._standing and time.monotonic() < self._asked_at + ASK_SECONDS:
            return True
        self._standing = standing
        try:
            return self._ask() == self._opened_with
        except DomainError:
            return False

    def _ask(self) -> Hashable:
        self._asked_at = time.monotonic()
        actor = self._again(self.credential)
        return actor, self._right(actor)


def _looked(guards: Collection[Guard]) -> dict[Guard, Hashable]:
    """What each guard's right can depend on, in a query or two for all of them."""
    people = standings({guard.credential for guard in guards})
    keys: defaultdict[Any, set[Hashable]] = defaultdict(set)
    for guard in guards:
        if guard.thing:
            keys[guard.thing.read].add(guard.thing.key)
    things = {read: read(asked) for read, asked in keys.items()}
    return {
        guard: (people[guard.credential], guard.thing and things[guard.thing.read].get(guard.thing.key))
        for guard in guards
    }


def standings(credentials: Collection[Credential]) -> dict[Credential, Hashable]:
    """Everything that a right can depend on, from fresh rows: the account, the token, session or view, the
    roles in tenants and the departments managed.
    """
    users, now = {known.user for known in credentials}, timezone.now()
    people = {
        pk: rest
        for pk, *rest in User.objects.filter(pk__in=users).values_list(
            "pk", "is_active", "platform_role", "password"
        )
    }
    tokens = ApiToken.objects.filter(pk__in={known.token for known in credentials})
    live = set(tokens.filter(revoked_at=None, expires_at__gt=now).values_list("pk", flat=True))
    sessions = Session.objects.filter(session_key__in={known.session for known in credentials})
    open_ = set(sessions.filter(expire_date__gt=now).values_list("session_key", flat=True))
    views = lasting({known.view for known in credentials if known.view}, now)
    places = _places(users)
    return {
        known: (
            tuple(people.get(known.user, ())),
            known.token in live,
            known.session in open_,
            known.view in views,
            frozenset(places[known.user]),
        )
        for known in credentials
    }


def roles_of(actor: Actor) -> dict[str, str]:
    """The actor's roles by slug of the tenant, where its credential reaches."""
    rows = Membership.objects.filter(user=actor.user_id).values_list("tenant__slug", "role")
    return {slug: role for slug, role in rows if actor.tenants is None or slug in actor.tenants}


def _places(users: Collection[UUID]) -> defaultdict[UUID, set[Hashable]]:
    found: defaultdict[UUID, set[Hashable]] = defaultdict(set)
    roles = Membership.objects.filter(user__in=users, tenant__deleted_at=None)
    for user, tenant, role in roles.values_list("user", "tenant", "role"):
        found[user].add((tenant, role))
    managed = Tenant.objects.filter(deleted_at=None, department__managers__user__in=users)
    for user, tenant in managed.values_list("department__managers__user", "pk"):
        found[user].add(tenant)
    return found


class _Board:
    """Everybody who listens in one event loop."""

    def __init__(self) -> None:
        self.hurry = asyncio.Event()
        self._waiting: dict[Guard, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def listen(self, guard: Guard) -> None:
        """Until the guard's right is over."""
        loop = asyncio.get_running_loop()
        self._waiting[guard] = ended = loop.create_future()
        if self._task is None or self._task.done():
            # Not in the context of the request that happens to be first.
            self._task = loop.create_task(self._look_on(), context=contextvars.Context())
        try:
            await ended
        finally:
            del self._waiting[guard]

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.wait([hurry := loop.create_task(self.hurry.wait())], timeout=LOOK_SECONDS)
            hurry.cancel()
            self.hurry.clear()
            for guard in await self._seen_over(loop):
                ended = self._waiting.get(guard)
                if ended is not None and not ended.done():
                    ended.set_result(None)

    async def _seen_over(self, loop: asyncio.AbstractEventLoop) -> Collection[Guard]:
        try:
            return await loop.run_in_executor(_EYES, _over, list(self._waiting))
        except Exception as error:
            # Whatever went wrong with the look: nobody goes on unwatched.
            if not outage.noted(error):
                log.exception("%s streams end, because the look at them failed", len(self._waiting))
            return list(self._waiting)


def _over(guards: Collection[Guard]) -> Collection[Guard]:
    """Those whose right is over; all of them if nobody can be asked, as no stream may outlive its right."""
    close_old_connections()
    try:
        standing = _looked(guards)
        return [guard for guard in guards if not guard.holds(standing[guard])]
    except DatabaseError as error:
        if not outage.noted(error):
            log.warning("%s streams end, as nobody can say whether they may go on: %s", len(guards), error)
        return guards
    finally:
        close_old_connections()


_boards: "WeakKeyDictionary[Any, _Board]" = WeakKeyDictionary()


def _board() -> _Board:
    return _boards.setdefault(asyncio.get_running_loop(), _Board())
