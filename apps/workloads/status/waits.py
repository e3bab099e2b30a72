"""How long work waits at the longest until it is let in. Pure."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from apps.cluster.objects.conditions import find
from apps.workloads import registry
from apps.workloads.specs import Phase
from apps.workloads.status.scheduling import UNSCHEDULABLE

if TYPE_CHECKING:
    from apps.workloads.status.derivation import Facts

AGAIN = ("WaitsAgain", "It was let in before, and waits for quota again.")
"""Why it is not ready, by which the next reconcile knows."""


def was_let_in(facts: "Facts") -> bool:
    """Whether it had its turn in this run already. Only of what is never done."""
    if not registry.of(facts.kind).begins_again:
        return False
    if facts.phase is not Phase.PENDING:
        return facts.phase in (Phase.STARTING, Phase.RUNNING)
    ready = find(facts.conditions, "Ready")
    return ready is not None and ready["reason"] in (AGAIN[0], UNSCHEDULABLE)


def latest(facts: "Facts") -> datetime | None:
    """When it has waited too long; None: no wait is too long.

    RULE: what is never done gives up its first wait alone. Were its pods lost or preempted after days, it
    would else end for good at once, as if it had waited since it was asked for.
    """
    if facts.max_wait_seconds is None or was_let_in(facts):
        return None
    return facts.asked_at + timedelta(seconds=facts.max_wait_seconds)
