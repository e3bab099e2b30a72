"""One simulated cluster: its parts put together, without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from sandbox.api.admission.chain import AdmissionHook
from sandbox.api.auth.users import SYSTEM
from sandbox.api.cluster.client import Client
from sandbox.api.cluster.views import Views
from sandbox.api.meta.objects import Obj
from sandbox.api.registry import crds
from sandbox.api.registry.generic import Registry
from sandbox.api.storage.clock import Clock, Ids, LiveClock, ManualClock
from sandbox.api.storage.store import Store
from sandbox.kinds.table import Kinds

INSTALLED = datetime(2026, 1, 1, tzinfo=UTC)
"""When clusters in memory were installed: before any test begins."""


class LogSource(Protocol):
    """Where container logs come from: deterministic in time."""

    def lines(
        self, pod: Obj, container: str, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, str]]:
        """Lines written in a window of simulated time, oldest first."""
        ...


class ShellSource(Protocol):
    """A shell in a container. Never runs anything on the host."""

    code: int
    is_over: bool

    @property
    def greeting(self) -> bytes:
        """What stands there first."""
        ...

    def heard(self, data: bytes) -> bytes:
        """What these keys bring forth."""
        ...

    def ended(self) -> bytes:
        """No more comes."""
        ...


class ExecSource(Protocol):
    """What a command in a container answers. Never runs anything on the host."""

    def shell(
        self, pod: Obj, container: str, command: list[str], now: Callable[[], datetime], *, is_terminal: bool
    ) -> ShellSource | None:
        """A shell, where the command is one."""
        ...

    def run(self, pod: Obj, container: str, command: list[str], now: datetime) -> tuple[str, str, int]:
        """stdout, stderr, exit code."""
        ...


class PortSource(Protocol):
    """What a container answers over HTTP. Never opens a connection."""

    def answer(
        self, pod: Obj, path: str, headers: Mapping[str, str], now: datetime
    ) -> tuple[int, str, bytes]:
        """Status, media type, body; 101: from here on it is a WebSocket that echoes."""
        ...


class Cluster:
    """Store, kinds, clock, ids and the registry of one cluster."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, kinds: Kinds | None = None) -> None:
        """`kinds` are given where every definition of the store is among them."""
        self.store, self.clock, self.ids = store, clock, ids
        self.kinds = kinds or Kinds()
        self.registry = Registry(self)
        self.admission: list[AdmissionHook] = self.registry.hooks
        self.system = Client(self)
        self.views = Views()
        self.logs: LogSource | None = None
        self.exec: ExecSource | None = None
        self.ports: PortSource | None = None
        if kinds is None:
            crds.serve_stored(self)
        crds.follow(self)

    def client(self, user: str = SYSTEM.name, manager: str = "kube-controller-manager") -> Client:
        """A component's client; in process everybody is trusted."""
        return Client(self, type(SYSTEM)(user, SYSTEM.groups), manager)

    @classmethod
    def in_memory(cls, *, seed: int = 7, start: datetime) -> Cluster:
        """A cluster for tests: no file, no HTTP, a clock that moves only when told."""
        first = _installed(seed)
        return cls(first.store.copy(), ManualClock(start), first.ids.copy(), first.kinds.copy())

    @classmethod
    def open(cls, path: Path, *, seed: int, speed: float) -> Cluster:
        """A cluster kept in a file; time goes on from where it stopped, never before wall time."""
        from sandbox.api.cluster import bootstrap

        store = Store(path)
        seed = int(store.fact("seed") or seed)
        starts = int(store.fact("starts") or 0) + 1
        store.remember("seed", str(seed))
        store.remember("starts", str(starts))
        clock = LiveClock(speed=speed)
        kept = store.fact("now")
        if kept:
            clock.jump((datetime.fromisoformat(kept) - clock.now()).total_seconds())
        cluster = cls(store, clock, Ids(seed, starts))
        bootstrap.prepare(cluster)
        return cluster

    def close(self) -> None:
        """Remember the time and close the file."""
        self.store.remember("now", self.clock.now().isoformat())
        self.store.close()


@lru_cache(maxsize=8)
def _installed(seed: int) -> Cluster:
    """What every cluster in memory begins with, to be copied: to create it takes ten times as long."""
    from sandbox.api.cluster import bootstrap

    cluster = Cluster(Store(), ManualClock(INSTALLED), Ids(seed))
    bootstrap.prepare(cluster)
    return cluster
