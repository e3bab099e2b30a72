"""The runs of a workload's container: when each began and ended, and with which exit code. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apps.workloads.status.derivation import time_of

Body = Mapping[str, Any]
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Run:
    """One life of the container; `exit_code` is None while it runs and where nobody was told."""

    pod: str
    node: str
    started_at: datetime | None
    ended_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def words(self) -> str:
        """The exit code, and what a code of 0 does not tell: `137 OOMKilled`."""
        if self.exit_code is None:
            return "-"
        return f"{self.exit_code} {self.reason}" if self.exit_code and self.reason else str(self.exit_code)


def runs_of(pods: Iterable[Body], container: str) -> tuple[Run, ...]:
    """Newest first. RULE: a pod tells of the last two lives of its container; older ones are not kept."""
    found = [run for pod in pods for run in _lives(pod, container)]
    return tuple(sorted(found, key=lambda run: run.started_at or NEVER, reverse=True))


def _lives(pod: Body, container: str) -> Iterable[Run]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    status = next((each for each in statuses if each.get("name") == container), None) or {}
    for state in (status.get("state") or {}, status.get("lastState") or {}):
        ended, running = state.get("terminated"), state.get("running")
        if ended or running:
            yield _run(pod, ended or {}, running or ended or {})


def _run(pod: Body, ended: Body, begun: Body) -> Run:
    code = ended.get("exitCode")
    return Run(
        pod=str(pod.get("metadata", {}).get("name", "")),
        node=str(pod.get("spec", {}).get("nodeName") or ""),
        started_at=time_of(begun.get("startedAt")),
        ended_at=time_of(ended.get("finishedAt")),
        exit_code=code if isinstance(code, int) else None,
        reason=str(ended.get("reason") or ""),
    )
