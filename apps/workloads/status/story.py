"""A workload's story for people: the steps from the request to its end. Pure: it words facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.words import Word
from apps.workloads import registry
from apps.workloads.specs import Kind, Phase

Conditions = Sequence[Mapping[str, Any]]
RESTING = (Phase.STOPPING, Phase.STOPPED, Phase.DELETING)


class StepState(Word):
    """Whether a step is behind, at hand or ahead."""

    DONE = "done", "Done"
    NOW = "now", "Now"
    LATER = "later", "Not yet"
    FAILED = "failed", "Failed"

    @property
    def icon(self) -> str:
        """The sprite's symbol."""
        return {"done": "circle-check", "now": "circle-dot", "later": "circle", "failed": "octagon-alert"}[
            self
        ]

    @property
    def tone(self) -> str:
        """The colour token."""
        return {"done": "good", "now": "accent", "later": "muted", "failed": "bad"}[self]


@dataclass(frozen=True)
class Step:
    """One line of the story; `at` is when it was reached, None while it was not or nobody knows."""

    name: str
    state: StepState
    at: datetime | str | None = None
    message: str = ""


@dataclass(frozen=True)
class Facts:
    """What the story is told from: columns of the workload's row, nothing else."""

    kind: Kind
    phase: Phase
    conditions: Conditions
    placement: Sequence[Mapping[str, Any]]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    has_devices: bool = True


def tell(facts: Facts) -> tuple[Step, ...]:
    """The steps in order; the first one not reached is at hand, unless the run has ended."""
    places = [
        _by_condition(facts, "Quota reserved", "QuotaReserved"),
        _by_condition(facts, "Admitted", "Admitted"),
        *([_devices(facts)] if facts.has_devices else []),
    ]
    after = [
        _started(facts),
        *([_by_condition(facts, "Open", "Ready")] if registry.of(facts.kind).opens else []),
    ]
    if facts.phase.is_final or facts.phase in RESTING:
        behind = [_behind(step) for step in places] if facts.started_at else places
        return (_accepted(facts), *behind, *after, _end(facts))
    return (*_at_hand([_accepted(facts), *places, *after]), Step("Ended", StepState.LATER))


def _behind(step: Step) -> Step:
    """What has run got its quota and devices, though it holds none any more; nobody keeps when."""
    return step if step.state is StepState.DONE else Step(step.name, StepState.DONE)


def _at_hand(steps: Sequence[Step]) -> list[Step]:
    shown = list(steps)
    for index, step in enumerate(shown):
        if step.state is StepState.LATER:
            shown[index] = Step(step.name, StepState.NOW, None, step.message)
            break
    return shown


def _accepted(facts: Facts) -> Step:
    synced = _find(facts.conditions, "Synced")
    stuck = synced is not None and synced.get("status") == "False"
    return Step(
        "Accepted",
        StepState.DONE,
        facts.created_at,
        str(synced.get("message", "")) if stuck and synced else "",
    )


def _by_condition(facts: Facts, name: str, kind: str) -> Step:
    found = _find(facts.conditions, kind)
    if found is None:
        return Step(name, StepState.LATER)
    if found.get("status") == "True":
        return Step(name, StepState.DONE, found.get("since"))
    return Step(name, StepState.LATER, None, str(found.get("message", "")))


def _devices(facts: Facts) -> Step:
    held = [(pod.get("node") or "a node", len(pod.get("devices") or ())) for pod in facts.placement]
    held = [(node, count) for node, count in held if count]
    step = _by_condition(facts, "Devices allocated", "DevicesAllocated")
    if not held:
        return step
    return Step(step.name, StepState.DONE, step.at, ", ".join(f"{count} on {node}" for node, count in held))


def _started(facts: Facts) -> Step:
    return Step("Started", StepState.DONE if facts.started_at else StepState.LATER, facts.started_at)


def _end(facts: Facts) -> Step:
    if facts.phase is Phase.FAILED:
        ready = _find(facts.conditions, "Ready")
        return Step(
            "Failed", StepState.FAILED, facts.ended_at, str(ready.get("message", "")) if ready else ""
        )
    done = facts.phase in (Phase.STOPPED, Phase.SUCCEEDED)
    return Step(facts.phase.label, StepState.DONE if done else StepState.NOW, facts.ended_at)


def _find(conditions: Conditions, kind: str) -> Mapping[str, Any] | None:
    return next((condition for condition in conditions if condition.get("type") == kind), None)
