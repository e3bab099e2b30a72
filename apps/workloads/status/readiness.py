"""Whether a workload's pods do what they are for, in words: the worst of them is told, with counts. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.workloads.status.containers import has_ended, is_leaving, stuck
from apps.workloads.status.endings import ending_of, restarts_of
from apps.workloads.status.tally import Tally

Body = Mapping[str, Any]

NOT_READY, PARTLY = "NotReady", "PartlyRuns"
"""Of what counts as running: none of its pods does what it is for, or not all do."""
FAILED_POD, LEAVING_POD = "PodFailed", "PodLeaving"
"""Of what has no other pod yet: the present one has failed, or is being removed."""
_STARTS = "Its pod is being started."


def running(pods: Sequence[Body], counted: Tally, replicas: str) -> tuple[str, str]:
    """Reason and words of what runs; `replicas`: how many of a service answer, empty of all else."""
    counted = counted.lasting if replicas else counted
    restarted = _restarted(pods)
    if not counted.lost:
        return "Running", joined(replicas or "It runs.", restarted)
    said = joined(replicas, counted.losses) if replicas else counted.words
    return PARTLY if counted.well else NOT_READY, joined(said, restarted or ending_of(pods))


def start(pods: Iterable[Body], counted: Tally, refused: Body | None) -> tuple[str, str]:
    """Of what starts: why a container of it cannot, else that the scheduler `refused` one, else that nothing
    keeps it, or what became of the pods that it had.
    """
    known = list(pods)
    ending = ending_of(known)
    present = (pod for pod in known if not (has_ended(pod) or is_leaving(pod)))
    counts = counted.words if counted.of > 1 else ""
    if waiting := next(filter(None, map(stuck, present)), None):
        return str(waiting["reason"]), joined(counts, ending, str(waiting.get("message", "")))
    if refused:
        return str(refused.get("reason", "")), str(refused.get("message", ""))
    if not counted.lost:
        return "Starting", joined(ending, _STARTS)
    said = joined(counts, ending) or counted.words
    if all(map(is_leaving, known)):
        return LEAVING_POD, said
    ended = (str((pod.get("status") or {}).get("reason") or "") for pod in known if has_ended(pod))
    return next(filter(None, ended), FAILED_POD), said


def joined(*sentences: str) -> str:
    """Those that say something, as one text."""
    return " ".join(filter(None, sentences))


def _restarted(pods: Iterable[Body]) -> str:
    """That its program was started again, and why: what it held in memory is gone."""
    known = list(pods)
    times = restarts_of(known)
    if not times:
        return ""
    again = f"It was started again {times} times." if times > 1 else "It was started again."
    return joined(again, ending_of(known))
