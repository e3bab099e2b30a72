"""One simulated cluster: its parts put together, without HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
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


class LogSource(Protocol):
    """Where container logs come from: deterministic in time."""

    def lines(
        self, pod: Obj, container: str, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, str]]:
        """Lines written in a window of simulated time, oldest first."""
        ...


class ExecSource(Protocol):
    """What a command in a container answers. Never runs anything on the host."""

    def run(self, pod: Obj, container: str, command: list[str], now: datetime) -> tuple[str, str, int]:
        """stdout, stderr, exit code."""
        ...


class PortSource(Protocol):
    """What a container answers over HTTP. Never opens a connection."""

    def answer(
        self, pod: Obj, path: str, headers: Mapping[str, str], now: datetime
    ) -> tuple[int, str, bytes]:
        """Status, media type, body."""
        ...


class Cluster:
    """Store, kinds, clock, ids and the registry of one cluster."""

    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        self.store, self.clock, self.ids = store, clock, ids
        self.kinds = Kinds()
        self.registry = Registry(self)
        self.admission: list[AdmissionHook] = self.registry.hooks
        self.system = Client(self)
        self.views = Views()
        self.logs: LogSource | None = None
        self.exec: ExecSource | None = None
        self.ports: PortSource | None = None
        crds.install(self)

    def client(self, user: str = SYSTEM.name, manager: str = "kube-controller-manager") -> Client:
        """A component's client; in process everybody is trusted."""
        return Client(self, type(SYSTEM)(user, SYSTEM.groups), manager)

    @classmethod
    def in_memory(cls, *, seed: int = 7, start: datetime) -> Cluster:
        """A cluster for tests: no file, no HTTP, a clock that moves only when told."""
        from sandbox.api.cluster import bootstrap

        cluster = cls(Store(), ManualClock(start), Ids(seed))
        bootstrap.prepare(cluster)
        return cluster

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
