"""Who is inside: the right of a cookie or token is asked when it first comes and watched from then on.

All that goes through the door belongs to a way in, and ends with it within a second. While a way is
watched, nothing that comes with it asks the database.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

import httpx
from django.db import Error as DatabaseError
from django.utils import timezone

from apps.accounts import actors
from apps.accounts.tokens import digest
from apps.cluster.gateway import forwarding
from apps.errors import DomainError, NotFound
from apps.tenants.live.services.stream_guard import Guard, Thing
from apps.workloads.opening.selectors import access, service_access
from apps.workloads.opening.services import service_tokens
from apps.workloads.opening.services.reaching import Upstream, upstream
from portal.door.asking import in_thread, note

Found = TypeVar("Found")
IDLE_SECONDS = 60.0
LOST_SECONDS = 1.0
"""A way is opened anew that often at most, however often it fails."""
LEFT_SECONDS = 30.0
"""For which a pod that did not answer is left to itself: the cluster learns of a node's end no sooner."""
MOST_CONNECTIONS, MOST_KEPT = 200, 20
IDE_KEPT, SERVICE_KEPT = 30.0, 4.0
"""Seconds that a connection is kept unused. A replica of a service that goes takes requests for 5 more, and
many servers close what was unused for 5.
"""


class Over(Exception):
    """The right to be inside has ended."""


class Known(NamedTuple):
    """By what somebody is known: the cookie of a browser, or the token of a program."""

    text: str
    is_program: bool = False


class Way:
    """One browser or program inside one workload. `entered` and what runs through it end together."""

    def __init__(self, workload: UUID, known: Known, guard: Guard, upstream: Upstream) -> None:
        self.workload, self.guard, self.upstream = workload, guard, upstream
        self.is_program, self.is_lost = known.is_program, False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.let_go = asyncio.Event()
        self.users, self.used_at = 0, time.monotonic()
        self.opened_at, self.noted_at = self.used_at, 0.0
        self.socket = ""
        self.http: Any = None

    async def during(self, work: Awaitable[Found]) -> Found:
        """The work's result; raises Over, and ends the work, once the right ends."""
        task = asyncio.ensure_future(work)
        self.users += 1
        try:
            both: set[asyncio.Future[Any]] = {task, self.over}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Over
            return task.result()
        finally:
            self.users, self.used_at = self.users - 1, time.monotonic()
            if self.is_lost:
                self.let_go.set()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    @property
    def has_others(self) -> bool:
        """Whether another pod could answer as well: a notebook is one pod."""
        return not self.upstream.token

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes through it, and nothing lately did."""
        return not self.users and (self.is_lost or time.monotonic() - self.used_at > IDLE_SECONDS)

    @property
    def authorization(self) -> bytes | None:
        """What the pod hears as `Authorization`; None: what the browser sent, because the door is not asked.

        RULE: a token that opens the door goes no further.
        """
        if self.upstream.token:
            return f"token {self.upstream.token}".encode()
        return b"" if self.is_program else None


class Ways:
    """Every way that is watched in this process; sockets of the API server's forwards lie in a folder that
    only this user opens.
    """

    def __init__(self) -> None:
        self._known: dict[str, asyncio.Task[Way]] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._left: dict[tuple[UUID, str], float] = {}
        """Pods that did not answer, and until when nobody is sent there."""

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="allotment-door-")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._watching):
            task.cancel()
        if self._watching:
            await asyncio.wait(self._watching)
        self._folder.cleanup()

    async def of(self, known: Known, workload: UUID) -> Way:
        """The way of this cookie or token into this workload. Raises Over where there is none, and as
        `upstream`.
        """
        key = f"{digest(known.text)}:{workload}"
        while True:
            if key not in self._known:
                self._known[key] = asyncio.ensure_future(self._open(key, known, workload))
            try:
                way = await asyncio.shield(self._known[key])
            except (DomainError, DatabaseError, Over):
                self._known.pop(key, None)
                raise
            # Lost by somebody else while this one waited: there is another by now.
            if not way.is_lost:
                break
        if way.over.done():
            raise Over
        way.used_at = time.monotonic()
        return way

    def lose(self, known: Known, way: Way) -> bool:
        """Its pod does not answer: nobody is sent there for a while, and whoever comes next looks for one
        that does. What runs goes on. True: there may be another.

        RULE: each pod is left at once the first time, and a key's ways not faster than `LOST_SECONDS` after
        that. In the cluster there is no other way: the Service knows which pods answer.
        """
        if way.upstream.way is None:
            return way.has_others
        pod, now = (way.workload, way.upstream.pod), time.monotonic()
        is_new = self._left.get(pod, 0.0) < now
        self._left[pod] = now + LEFT_SECONDS
        if not is_new and now < way.opened_at + LOST_SECONDS:
            return False
        key, way.is_lost = f"{digest(known.text)}:{way.workload}", True
        way.let_go.set()
        task = self._known.get(key)
        if task is not None and task.done() and not task.cancelled() and task.result() is way:
            del self._known[key]
        return way.has_others

    async def _open(self, key: str, known: Known, workload: UUID) -> Way:
        now = time.monotonic()
        self._left = {pod: until for pod, until in self._left.items() if until > now}
        left = frozenset(pod for of, pod in self._left if of == workload)
        guard, reached = await in_thread(_asked, known, workload, left)
        way = Way(workload, known, guard, reached)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._watch(key, known, way, ready))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        await ready
        return way

    async def _watch(self, key: str, known: Known, way: Way, ready: "asyncio.Future[None]") -> None:
        ended = asyncio.ensure_future(way.guard.over())
        try:
            async with AsyncExitStack() as open_:
                if way.upstream.way:
                    way.socket = str(Path(self._folder.name) / f"{id(way):x}")
                    await open_.enter_async_context(forwarding.listening(way.upstream.way, way.socket))
                # The transport alone: a client would follow, keep cookies and read what is only passed on.
                kept = IDE_KEPT if way.upstream.token else SERVICE_KEPT
                made = httpx.AsyncHTTPTransport(
                    verify=False,
                    limits=httpx.Limits(
                        max_connections=MOST_CONNECTIONS,
                        max_keepalive_connections=MOST_KEPT,
                        keepalive_expiry=kept,
                    ),
                    uds=way.socket or None,
                    trust_env=False,
                    retries=1,
                )
                way.http = await open_.enter_async_context(made)
                ready.set_result(None)
                while not ended.done() and not way.is_idle:
                    _note(known, way)
                    await _either(ended, way.let_go)
        finally:
            if not way.is_lost:
                self._known.pop(key, None)
            way.over.set_result(None)
            ended.cancel()
            if not ready.done():
                ready.cancel()


def _asked(known: Known, workload: UUID, left: Collection[str] = ()) -> tuple[Guard, Upstream]:
    return (_of_token if known.is_program else _of_cookie)(known.text, workload, left)


def _of_cookie(cookie: str, workload: UUID, left: Collection[str]) -> tuple[Guard, Upstream]:
    found = access.opening(cookie, workload, timezone.now())
    if found is None:
        raise Over
    try:
        guard = Guard(
            access.credential(found),
            lambda actor: access.right(actor, workload, found.ends_at, timezone.now()),
            Thing(access.standings, workload),
        )
    except NotFound:
        # A tab of JupyterLab takes 404 for a folder that is missing, and asks for the one above without end.
        raise Over from None
    return guard, upstream(found.workload, without=left)


def _of_token(text: str, workload: UUID, left: Collection[str]) -> tuple[Guard, Upstream]:
    found = service_access.opened_by(text, workload, timezone.now())
    if found is None:
        raise Over

    # It only reads: on the guards' thread a write would wait for other writers, and all streams with it.
    guard = Guard(
        service_access.credential(found),
        lambda actor: service_access.right(actor, found.pk, text, timezone.now()),
        Thing(service_access.standings, found.pk),
        actors.maker,
    )
    return guard, upstream(found.workload, without=left)


def _note(known: Known, way: Way) -> None:
    """That a token is used, at its opening and once a minute, where it was since the last time."""
    if known.is_program and (way.users or way.used_at > way.noted_at):
        way.noted_at = time.monotonic()
        note(_noted, known.text, way.workload)


def _noted(text: str, workload: UUID) -> None:
    now = timezone.now()
    if found := service_access.opened_by(text, workload, now):
        service_tokens.note_use(found, now)


async def _either(ended: "asyncio.Future[None]", let_go: asyncio.Event) -> None:
    """Until it has ended, was let go, or it is time to look again."""
    left = asyncio.ensure_future(let_go.wait())
    try:
        both: set[asyncio.Future[Any]] = {ended, left}
        await asyncio.wait(both, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        let_go.clear()
