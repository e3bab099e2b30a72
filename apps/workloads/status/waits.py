"""How long work waits at the longest until it is let in. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from apps.cluster.objects.conditions import find
from apps.workloads import registry
from apps.workloads.specs import Kind, Phase
from apps.workloads.status.scheduling import UNSCHEDULABLE

if TYPE_CHECKING:
    from apps.workloads.status.derivation import Facts

AGAIN = ("WaitsAgain", "It was let in before, and waits for quota again.")
"""Why it is not ready, by which the next reconcile knows."""


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
    would else end for good at once, as if it had waited since it was asked for.
    """
    if facts.max_wait_seconds is None or was_let_in(facts):
        return None
    return facts.asked_at + timedelta(seconds=facts.max_wait_seconds)
