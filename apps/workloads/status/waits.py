"""How long work waits at the longest until it is let in, and what waits until somebody asks for it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.objects.conditions import Condition, find
from apps.workloads import registry
from apps.workloads.specs import ALONE, Kind, Phase
from apps.workloads.status.scheduling import UNSCHEDULABLE

if TYPE_CHECKING:
    from apps.workloads.status.derivation import Facts

AGAIN = ("WaitsAgain", "It was let in before, and waits for quota again.")
"""Why it is not ready, by which the next reconcile knows."""

TO_BE_LET_IN = timedelta(seconds=90)
"""What even the shortest wait lasts: an earlier run takes up to 60 s to end, and Kueue is silent after 30."""

BY_KUEUE = "DeactivatedDueTo"
"""How Kueue's reason of an eviction begins where it set `spec.active` to false itself."""
BY_HAND = "Deactivated"
"""Kueue's reason of an eviction where somebody else did."""


def was_let_in(facts: "Facts") -> bool:
    """Whether it had its turn in this run already. Only of what is never done."""
    return had_its_turn(facts.kind, facts.phase, facts.conditions)


def had_its_turn(kind: Kind, phase: Phase, conditions: Iterable[Any]) -> bool:
    """`was_let_in`, of what a row says."""
    if not registry.of(kind).begins_again:
        return False
    if phase is not Phase.PENDING:
        return phase in (Phase.STARTING, Phase.RUNNING)
    ready = find(conditions, "Ready")
    return ready is not None and ready["reason"] in (AGAIN[0], UNSCHEDULABLE)


def latest(facts: "Facts") -> datetime | None:
    """When it has waited too long; None: no wait is too long.

    RULE: what is never done gives up its first wait alone. Were its pods lost or preempted after days, it
    would else end for good at once, as if it had waited since it was asked for. Who would not wait was
    refused what does not fit now; what fits has the time to be applied and let in.
    """
    if facts.max_wait_seconds is None or was_let_in(facts):
        return None
    return facts.asked_at + max(timedelta(seconds=facts.max_wait_seconds), TO_BE_LET_IN)


class Asked(Protocol):
    """What is asked for, and what is known of it: a row, or the facts of one."""

    @property
    def kind(self) -> str: ...  # noqa: D102 - as the columns

    @property
    def conditions(self) -> Sequence[Any]: ...  # noqa: D102

    @property
    def asked_at(self) -> datetime: ...  # noqa: D102


def taken_out(asked: Asked) -> Condition | None:
    """The eviction by which Kueue, or a hand, took it out of its queue, as its row keeps it.

    RULE: a pod's Kueue Workload goes with the pod, and with it that it is out. The row says so instead, until
    it is asked for again or asks for something else. What the platform itself holds has not had its place,
    so it keeps its pod.
    """
    said = find(asked.conditions, "Evicted") if registry.of(asked.kind).controller == ALONE else None
    return said if said and _is_out(said, said["since"], asked.asked_at) else None


def takes_out(evicted: Mapping[str, Any] | None, asked_at: datetime) -> bool:
    """Whether a Kueue Workload's condition Evicted says that it was taken out since it was asked for."""
    return evicted is not None and _is_out(evicted, evicted.get("lastTransitionTime"), asked_at)


def is_asked_since(evicted: Mapping[str, Any] | None, asked_at: datetime) -> bool:
    """Whether it was taken out, and somebody has asked for it again: then nothing is to be said of that."""
    return evicted is not None and _takes_out(evicted) and not takes_out(evicted, asked_at)


def _is_out(evicted: Mapping[str, Any], since: str | None, asked_at: datetime) -> bool:
    at = moment(since)
    return _takes_out(evicted) and at is not None and at > asked_at


def _takes_out(evicted: Mapping[str, Any]) -> bool:
    reason = str(evicted.get("reason", ""))
    return evicted.get("status") == "True" and (reason == BY_HAND or reason.startswith(BY_KUEUE))
