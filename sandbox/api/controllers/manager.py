"""Runs controllers: one work queue, timers on simulated time, retry with backoff. Knows no kind."""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import controller_of, name_of, namespace_of
from sandbox.api.storage.clock import ManualClock
from sandbox.api.storage.store import Change

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

log = logging.getLogger("sandbox.controllers")
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
# Between requests the controllers hold the loop no longer than this, one reconcile excepted.
_SLICE_SECONDS = 0.004
_PAUSE_SECONDS = 0.001
_TICK_SECONDS = 0.05


class Key(NamedTuple):
    """What to reconcile."""

    namespace: str
    name: str


Mapper = Callable[[Change], Iterable[Key]]


class Controller(Protocol):
    """A level-triggered loop: reads what is, writes what is wrong."""

    name: str

    def watches(self) -> Mapping[str, Mapper]:
        """Resources to follow, each with the keys a change concerns."""
        ...

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Bring one key in order; simulated seconds until it must be looked at again, or None."""
        ...


def own_key(change: Change) -> tuple[Key, ...]:
    """The changed object itself."""
    return (Key(namespace_of(change.obj), name_of(change.obj)),)


def owner_key(kind: str) -> Mapper:
    """The controller of the changed object, if it is of a kind."""

    def mapper(change: Change) -> Iterable[Key]:
        for obj in (change.obj, change.old):
            owner = controller_of(obj) if obj is not None else None
            if owner is not None and owner["kind"] == kind:
                yield Key(namespace_of(change.obj), owner["name"])

    return mapper


class Manager:
    """The queue and the timers of all controllers of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.controllers: dict[str, Controller] = {}
        self.failures = 0
        self._mappers: dict[str, list[tuple[str, Mapper]]] = {}
        self._queue: deque[tuple[str, Key]] = deque()
        self._queued: set[tuple[str, Key]] = set()
        self._timers: list[tuple[datetime, int, str, Key]] = []
        self._due: dict[tuple[str, Key], datetime] = {}
        self._retries: dict[tuple[str, Key], int] = {}
        self._sequence = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        cluster.store.listen(self._follow)

    # -- filling the queue -----------------------------------------------------------------------------------

    def add(self, controller: Controller) -> None:
        """Run a controller; everything that exists is mapped once."""
        self.controllers[controller.name] = controller
        for resource, mapper in controller.watches().items():
            self._mappers.setdefault(resource, []).append((controller.name, mapper))
            for entry in list(self.cluster.store.entries(resource)):
                change = Change("ADDED", resource, entry.obj, None, self.cluster.store.version, b"")
                for key in mapper(change):
                    self.enqueue(controller.name, key)

    def _follow(self, change: Change) -> None:
        for name, mapper in self._mappers.get(change.resource, ()):
            for key in mapper(change):
                self.enqueue(name, key)

    def enqueue(self, controller: str, key: Key) -> None:
        """Look at a key soon."""
        item = (controller, key)
        if item not in self._queued:
            self._queued.add(item)
            self._queue.append(item)
            self._wake.set()

    def _later(self, controller: str, key: Key, seconds: float) -> None:
        due = self.cluster.clock.now() + timedelta(seconds=max(0.0, seconds))
        known = self._due.get((controller, key))
        if known is not None and known <= due:
            return
        self._due[(controller, key)] = due
        self._sequence += 1
        heapq.heappush(self._timers, (due, self._sequence, controller, key))

    def _ripen(self) -> None:
        now = self.cluster.clock.now()
        while self._timers and self._timers[0][0] <= now:
            due, _, controller, key = heapq.heappop(self._timers)
            if self._due.get((controller, key)) == due:
                del self._due[(controller, key)]
                self.enqueue(controller, key)

    # -- working ---------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Reconcile one key; False when there is none."""
        self._ripen()
        if not self._queue:
            return False
        item = self._queue.popleft()
        self._queued.discard(item)
        name, key = item
        try:
            delay = self.controllers[name].reconcile(key, self.cluster.clock.now())
        except ApiError as problem:
            self._refused(name, key, problem)
        except Exception:
            # A broken controller must not stop the others; it is counted and tried again.
            self.failures += 1
            log.exception("controller %s failed on %s/%s", name, key.namespace, key.name)
            self._back_off(name, key)
        else:
            self._retries.pop(item, None)
            if delay is not None:
                self._later(name, key, delay)
        return True

    def _refused(self, name: str, key: Key, problem: ApiError) -> None:
        if problem.reason == "Conflict":
            self._retries[(name, key)] = self._retries.get((name, key), 0) + 1
            if self._retries[(name, key)] <= 5:
                self.enqueue(name, key)
                return
        self.failures += 1
        log.warning("controller %s refused on %s/%s: %s", name, key.namespace, key.name, problem.message)
        self._back_off(name, key)

    def _back_off(self, name: str, key: Key) -> None:
        tries = self._retries[(name, key)] = self._retries.get((name, key), 0) + 1
        self._later(name, key, min(_LAST_RETRY, _FIRST_RETRY * 2 ** min(tries - 1, 10)))

    def drain(self, limit: int = 10_000) -> int:
        """Work until nothing is queued; how many keys were reconciled. RuntimeError when it never ends."""
        for done in range(limit):
            if not self.step():
                return done
        raise RuntimeError(
            f"the controllers did not settle within {limit} steps; still queued: {list(self._queue)[:5]}"
        )

    def advance(self, seconds: float) -> None:
        """Move a manual clock through every timer of the span, working at each."""
        clock = self.cluster.clock
        if not isinstance(clock, ManualClock):
            raise TypeError("only a manual clock can be advanced")
        end = clock.now() + timedelta(seconds=seconds)
        self.drain()
        while self._timers and self._timers[0][0] <= end:
            clock.jump((self._timers[0][0] - clock.now()).total_seconds())
            self.drain()
        clock.jump((end - clock.now()).total_seconds())
        self.drain()

    # -- in the background -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Work in the running loop until stopped."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Finish the key at hand and end."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _slice(self) -> bool:
        """Work for one slice of time; whether there was anything to do."""
        ends, worked = time.monotonic() + _SLICE_SECONDS, False
        while time.monotonic() < ends and self.step():
            worked = True
        return worked

    async def _run(self) -> None:
        while True:
            if self._slice():
                # A pause, not only a turn: whoever waits for an answer goes first.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_SECONDS)
