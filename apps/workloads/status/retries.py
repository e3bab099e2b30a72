"""When a pod that failed is made anew, where nothing in the cluster does that. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.objects.conditions import find
from apps.workloads.status.last_run import LastRun

LONGEST = timedelta(minutes=1)
"""The longest pause between two tries; the first is a second, each next one twice as long."""
STEADY = timedelta(minutes=10)
"""What ran so long has not failed in a row: as for the kubelet, when it starts a container again."""


def failures(before: LastRun | None, pod: Mapping[str, Any], generation: int, now: datetime) -> int:
    """How often in a row its pods have failed, with this one; `before`: the run before it that is over.

    RULE: another request, and being asked for again, begin anew.
    """
    began = moment((pod.get("status") or {}).get("startTime"))
    was_steady = began is not None and now - began >= STEADY
    is_same = before is not None and before.generation == generation
    return before.failures + 1 if before and is_same and not was_steady else 1


def failed_last(run: LastRun | None, conditions: Iterable[Any], generation: int) -> LastRun | None:
    """The failure after which it is tried again; None where it has run since, or asks for something else."""
    if run is None or not run.failures or run.generation != generation:
        return None
    ready = find(conditions, "Ready")
    since = moment(ready["since"]) if ready and ready["status"] == "False" else None
    return run if since is not None and since <= run.seen_at else None


def tried_again_at(run: LastRun) -> datetime:
    """When the next pod is made."""
    return run.seen_at + min(LONGEST, timedelta(seconds=2 ** min(run.failures - 1, 10)))
