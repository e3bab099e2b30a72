"""Who is asked for notebooks in G3: the product, and hubs of the peer."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from apps.cluster.objects.names import LABEL_MANAGED_BY, MANAGER
from bench import peer
from bench.audit import PRODUCT
from bench.rig import CLEARED, PARTS, Rig, until


class Side(Protocol):
    """Who is asked for notebooks."""

    name: str
    namespace: str
    user: str
    """Who writes to the API server in its name, its pods too."""

    def groups(self) -> dict[str, list[int]]:
        """Its own processes, by part."""

    def prepare(self, names: Sequence[str]) -> None:
        """What must be there before any clock starts."""

    async def ask(self, names: Sequence[str]) -> tuple[float, list[float]]:
        """All at once: when the first was asked for, and when each was answered."""

    def ready(self) -> int:
        """How many notebooks run, as this side itself says."""

    def counts(self) -> dict[str, int]:
        """What it has done so far, by its own records."""

    def remove(self, names: Sequence[str]) -> None:
        """All of them, and what they left."""


class Ours:
    """The product, through REST."""

    name, user = "ours", PRODUCT

    def __init__(self, rig: Rig) -> None:
        self.rig, self.namespace = rig, rig.namespace("vision")
        self._tokens: list[str] = []

    def groups(self) -> dict[str, list[int]]:
        groups = self.rig.groups()
        return {part: groups[part] for part in (*PARTS, "redis")}

    def prepare(self, names: Sequence[str]) -> None:
        self._tokens = self.rig.tokens(len(names))

    async def ask(self, names: Sequence[str]) -> tuple[float, list[float]]:
        return await self.rig.ask(names, self._tokens, most=len(names))

    def ready(self) -> int:
        return self.rig.alive(phase="Running")

    def counts(self) -> dict[str, int]:
        reconciles = "select coalesce(sum(fence), 0) from workloads_workload where deleted_at is null"
        transactions = (
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        )
        asked = {"reconciles": reconciles, "transactions": transactions}
        rows = {what: self.rig.rows.execute(query.encode()).fetchone() for what, query in asked.items()}
        counts = {what: int(row[0]) if row else 0 for what, row in rows.items()}
        return {**counts, "refused": self.rig.refused}

    def remove(self, names: Sequence[str]) -> None:  # noqa: ARG002 - there are no others
        self.rig.clear()


class Theirs:
    """A hub of the peer."""

    user = peer.USER

    def __init__(self, name: str, rig: Rig, hub: peer.Peer) -> None:
        self.name, self.rig, self.hub, self.namespace = name, rig, hub, hub.namespace

    def groups(self) -> dict[str, list[int]]:
        return self.hub.groups()

    def prepare(self, names: Sequence[str]) -> None:
        asyncio.run(self.hub.add(names))

    async def ask(self, names: Sequence[str]) -> tuple[float, list[float]]:
        return await self.hub.ask(names)

    def ready(self) -> int:
        return asyncio.run(self.hub.ready())

    def counts(self) -> dict[str, int]:
        return {}

    def remove(self, names: Sequence[str]) -> None:
        asyncio.run(self.hub.remove(names))
        # What every tenant's namespace has stays.
        kinds = "pods,services,persistentvolumeclaims,workloads.kueue.x-k8s.io"
        theirs = ("get", "-o", "name", kinds, "-l", f"{LABEL_MANAGED_BY}!={MANAGER}")
        until(
            lambda: not self.rig.plane.kubectl("-n", self.namespace, *theirs).strip(),
            f"{self.namespace} to be empty", CLEARED, every=1.0,
        )  # fmt: skip
