"""How a workload's last run ended: what its row keeps of it, and whose logs are read. Pure.

The words stand on the row, the logs in tables of their own (`apps.workloads.log_models`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.objects.conditions import find
from apps.words import Word
from apps.workloads.specs import Phase
from apps.workloads.status import waits
from apps.workloads.status.containers import failed_before, has_run, main_of, waiting_of
from apps.workloads.status.derivation import Derived, Facts, ObservedWorkload, condition_of
from apps.workloads.status.endings import ended_by_node, ending_of
from apps.workloads.status.readiness import LEAVING_POD, NOT_READY, PARTLY

Body = Mapping[str, Any]

MOST_PODS = 5
"""Of how many pods the logs are kept: of an array or a training those that failed come first."""
MOST_TRIES = 3
BETWEEN_TRIES = timedelta(seconds=4)
"""Also how long after the end its last events are waited for."""
LONGEST_CAUSE = 1000
FAILING = "FailureTarget"
"""Condition of a Job (batch/v1) that will fail: its pods go now, and only then it has failed."""
_PLAIN = (
    "Starting", "Running", "Stopping", "Waiting", "ContainerCreating", "PodInitializing", PARTLY, NOT_READY,
    LEAVING_POD,
)  # fmt: skip
"""Reasons of Ready that say nothing of a failure."""


class Outcome(Word):
    """How a run ended."""

    SUCCEEDED = "succeeded", "Finished"
    FAILED = "failed", "Failed"
    STOPPED = "stopped", "Stopped"
    EVICTED = "evicted", "Evicted"


@dataclass(frozen=True)
class Source:
    """A container whose log is kept; `place`: among those of the run, the most telling first."""

    place: int
    pod: str
    uid: str
    container: str


@dataclass(frozen=True)
class LogNote:
    """What came of reading one container's log; `problem`: why there is none, in the cluster's words."""

    pod: str
    container: str
    size: int = 0
    is_cut: bool = False
    problem: str = ""


@dataclass(frozen=True)
class LastRun:
    """A run that is over. `generation` is the row's at that time, `seen_at` when the end was seen."""

    outcome: Outcome
    cause: str
    generation: int
    seen_at: datetime
    started_at: datetime | None
    ended_at: datetime
    tries: int = 0
    is_settled: bool = False
    logs: tuple[LogNote, ...] = ()
    pod: str = ""
    """The uid of the pod that failed, where it is made anew after that; `reason`: as its node gave it."""
    reason: str = ""
    failures: int = 0
    """How often in a row its pods have failed so."""

    @property
    def is_read(self) -> bool:
        """Whether no log of it is read any more: all came, or it was tried often enough."""
        return self.tries >= MOST_TRIES or (self.tries > 0 and not any(log.problem for log in self.logs))

    @property
    def problem(self) -> str:
        """Why there is no log of it; empty where there is one, or nothing ran."""
        problems = [log.problem for log in self.logs]
        return problems[0] if problems and all(problems) else ""

    def is_due(self, now: datetime) -> bool:
        """Whether its logs are to be read now: at once, and after each failure a little later."""
        return not self.is_read and now >= self.seen_at + self.tries * BETWEEN_TRIES

    def settled(self, now: datetime) -> "LastRun":
        """The same, settled once nothing more is expected of it."""
        return replace(self, is_settled=self.is_read and now >= self.seen_at + BETWEEN_TRIES)

    def as_json(self) -> dict[str, Any]:
        """As the row keeps it."""
        started = self.started_at.isoformat() if self.started_at else None
        return self.__dict__ | {
            "outcome": str(self.outcome),
            "seen_at": self.seen_at.isoformat(),
            "started_at": started,
            "ended_at": self.ended_at.isoformat(),
            "logs": [log.__dict__ for log in self.logs],
        }


def stored(kept: Mapping[str, Any] | None) -> LastRun | None:
    """What `as_json` made; None where nothing is kept."""
    if not kept:
        return None
    started = kept["started_at"]
    return LastRun(
        outcome=Outcome(kept["outcome"]),
        cause=kept["cause"],
        generation=kept["generation"],
        seen_at=datetime.fromisoformat(kept["seen_at"]),
        started_at=datetime.fromisoformat(started) if started else None,
        ended_at=datetime.fromisoformat(kept["ended_at"]),
        tries=kept["tries"],
        is_settled=kept["is_settled"],
        logs=tuple(LogNote(**log) for log in kept["logs"]),
        pod=kept.get("pod", ""),
        reason=kept.get("reason", ""),
        failures=kept.get("failures", 0),
    )


def outcome_of(facts: Facts, derived: Derived, seen: ObservedWorkload, *, removes: bool) -> Outcome | None:
    """How the present run ends, as far as it does now; `removes`: what makes its pods is taken away."""
    if facts.deleting:
        return None
    if derived.phase.is_final:
        return Outcome.FAILED if derived.phase is Phase.FAILED else Outcome.SUCCEEDED
    if facts.phase is Phase.STOPPING or removes:
        return Outcome.STOPPED
    if _failing(seen):
        return Outcome.FAILED
    # That its pod went may be seen before why: then it waits again already.
    is_on = facts.phase in (Phase.STARTING, Phase.RUNNING)
    is_news = waits.was_let_in(facts) and not _evicted(facts.conditions)
    if (is_on or is_news) and _evicted(derived.conditions):
        return Outcome.EVICTED
    return Outcome.FAILED if seen.failed and facts.wanted else None


def uid_of(pod: Body | None) -> str:
    """The uid of a pod; empty of none."""
    return str((pod or {}).get("metadata", {}).get("uid") or "")


def of_this_run(
    known: LastRun | None, outcome: Outcome, facts: Facts, seen: ObservedWorkload
) -> LastRun | None:
    """What is kept already of the run that ends so; None where this is the first that is seen of its end.

    RULE: the row's phase and what it keeps of the run are written at once, so a row that has ended before has
    its own; a stop is known by the generation that it made, a failure that is followed by another try by its
    pod.
    """
    if known is None or known.outcome is not outcome:
        return None
    if outcome is Outcome.FAILED and seen.failed:
        return known if known.pod == uid_of(seen.failed) else None
    is_same = known.generation == facts.generation
    if outcome is Outcome.STOPPED:
        return known if is_same else None
    if outcome is Outcome.EVICTED:
        return known if is_same and _evicted(facts.conditions) else None
    return known if is_same or facts.phase.is_final else None


def cause_of(outcome: Outcome, facts: Facts, derived: Derived, seen: ObservedWorkload) -> str:
    """The root cause in words: what ended its container, else what kept it from starting, and the words of
    Kubernetes or Kueue.
    """
    if outcome is Outcome.FAILED and seen.failed:
        return _cut(ended_by_node(seen.failed) or "Its pod has failed.")
    if outcome is Outcome.FAILED:
        said: Body = _failing(seen) or find(derived.conditions, "Ready") or {}
        words, before = str(said.get("message", "")), ending_of(seen.pods) or _stuck(facts, seen.pods)
        return _cut(words if before in words else f"{before} {words}")
    if outcome is Outcome.EVICTED:
        evicted: Body = find(derived.conditions, "Evicted") or {}
        return _cut(f"{evicted.get('reason', 'Evicted')}: {evicted.get('message', '')}")
    if outcome is Outcome.STOPPED:
        return _cut(f"It was stopped. {ending_of(seen.pods) or _stuck(facts, seen.pods)}")
    return "It finished."


def _failing(seen: ObservedWorkload) -> Body | None:
    mark = condition_of(seen.controller, FAILING)
    return mark if mark and mark.get("status") == "True" else None


def tells(pods: Iterable[Body]) -> bool:
    """Whether its pods show what ended it."""
    return bool(ending_of(pods))


def has_begun(pods: Iterable[Body]) -> bool:
    """Whether one of its pods was given a node."""
    return any((pod.get("spec") or {}).get("nodeName") for pod in pods)


def sources(pods: Iterable[Body]) -> list[Source]:
    """Whose logs are kept: of each pod that failed, then of the newest, every container that ran, or the init
    container that kept them from running.
    """
    in_order = sorted(pods, key=_made_at, reverse=True)
    in_order.sort(key=lambda pod: pod.get("status", {}).get("phase") != "Failed")
    ran = [(pod, names) for pod in in_order if (names := _that_ran(pod))]
    chosen = [(pod["metadata"], name) for pod, names in ran[:MOST_PODS] for name in names]
    return [
        Source(place, str(metadata["name"]), str(metadata.get("uid", "")), name)
        for place, (metadata, name) in enumerate(chosen)
    ]


def _that_ran(pod: Body) -> list[str]:
    first = failed_before(pod)
    return [first] if first else [str(each.get("name", "")) for each in main_of(pod) if has_run(each)]


def _made_at(pod: Body) -> str:
    return str(pod.get("metadata", {}).get("creationTimestamp") or "")


def _stuck(facts: Facts, pods: Iterable[Body]) -> str:
    """What kept its container from starting: as its pods say, else as was said before they went."""
    waits = [waiting for pod in pods for waiting in waiting_of(pod)]
    said: Body = find(facts.conditions, "Ready") or {}
    seen = [*waits, *([said] if facts.phase in (Phase.STARTING, Phase.STOPPING) else [])]
    for each in seen:
        reason, words = str(each.get("reason") or ""), str(each.get("message") or "")
        if words and reason not in _PLAIN:
            return f"It could not start ({reason}): {words.rstrip('.')}."
    return ""


def _evicted(conditions: Iterable[Body]) -> bool:
    return any(each["type"] == "Evicted" and each["status"] == "True" for each in conditions)


def _cut(words: str) -> str:
    return words.strip()[:LONGEST_CAUSE]
