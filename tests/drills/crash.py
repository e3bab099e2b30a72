"""Ends a reconcile at a chosen write, as SIGKILL would: nothing after it runs, what was sent stays sent.

Or lets the write fail there, as a broken API server or a cut connection would.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

from apps.cluster.gateway.port import Gateway
from apps.cluster.models import Cluster
from tests.drills.door import Killed, Write
from tests.drills.world import Hint, World

MOMENTS = ("before", "after")
_WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass
class Crasher:
    """Counts every write of the reconciles it is shown; at `target`, `times` times, it does its worst.

    A point is a mutating call (`apply Pod 1`) or a statement (`sql UPDATE workloads_workload 3`).
    """

    target: str = ""
    worst: Callable[[], BaseException] = Killed
    times: int = 1
    points: list[str] = field(default_factory=list)
    struck: bool = False
    statements: Counter[str] = field(default_factory=Counter)

    def before(self, write: Write) -> None:
        self._pass(f"before {write.point}")

    def after(self, write: Write, answer: Any) -> Any:
        self._pass(f"after {write.point}")
        return answer

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The database's writes inside are points too."""
        with connection.execute_wrapper(self._execute):
            yield

    def _execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001
        word = sql.split(None, 1)[0]
        if word not in _WRITES:
            return execute(sql, params, many, context)
        statement = f"sql {word} {_table(sql)}"
        self.statements[statement] += 1
        name = f"{statement} {self.statements[statement]}"
        self._pass(f"before {name}")
        answer = execute(sql, params, many, context)
        self._pass(f"after {name}")
        return answer

    def _pass(self, point: str) -> None:
        self.points.append(point)
        if self.target and self._without_number(point) == self._without_number(self.target):
            self._strike(point)

    def _strike(self, point: str) -> None:
        """Once at the point itself; further times at the same write wherever it is tried again."""
        if not self.struck and point != self.target:
            return
        self.struck = True
        if self.times > 0:
            self.times -= 1
            raise self.worst()

    @staticmethod
    def _without_number(point: str) -> str:
        return point.rpartition(" ")[0]


class CrashingWorld(World):
    """A world whose worker can be killed at a point. The message it worked on is lost with it."""

    def __init__(self, cluster: Cluster, hints: list[Hint]) -> None:
        self.crasher: Crasher | None = None
        super().__init__(cluster, hints)

    def reconcile(self, owner: str, pk: str | UUID, gateway: Gateway | None = None) -> None:
        """One hint; a worker that dies leaves its lease behind until that runs out."""
        if self.crasher is None:
            super().reconcile(owner, pk, gateway)
            return
        self.gateway.before, self.gateway.after = self.crasher.before, self.crasher.after
        try:
            with self.crasher.watching():
                super().reconcile(owner, pk, gateway)
        except Killed:
            self.lease_ends()

    def under(self, crasher: Crasher, act: Callable[[], None]) -> Crasher:
        """Do it with this crasher at work until everything has settled."""
        self.gateway.forget()
        self.crasher = crasher
        act()
        self.settle()
        self.crasher = None
        return crasher


def _table(sql: str) -> str:
    return sql.split('"')[1]
