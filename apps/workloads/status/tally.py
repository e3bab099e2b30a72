"""How many of a workload's pods do what they are for, and what becomes of the others. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from apps.workloads.status.containers import has_ended, is_leaving, main_of, stuck
from apps.workloads.status.endings import in_short, taken

Body = Mapping[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label that Kubernetes writes on the pods of an array, by which one replaces another."""
CRASH_LOOP = "CrashLoopBackOff"


class Loss(NamedTuple):
    """Why a pod does not do what it is for. `passes`: what replaces its pods all the time loses nothing by
    one that goes or is not ready yet.
    """

    one: str
    several: str
    why: str = ""
    passes: bool = False

    def said(self, count: int) -> str:
        """Of so many, as the end of a sentence."""
        what = self.one if count == 1 else self.several
        return f"{what}: {self.why}" if self.why else what


class Tally(NamedTuple):
    """`well` of `of` pods do what they are for, and nobody waits for `lost`."""

    well: int
    of: int
    lost: Counter[Loss]

    @property
    def words(self) -> str:
        """`1 of 8 runs; 7 crash: exit 1.`; empty while all run or start."""
        if not self.lost:
            return ""
        if self.of == 1:
            return f"It does not run: its pod {next(iter(self.lost)).said(1)}."
        return f"{self.well} of {self.of} run{'s' if self.well == 1 else ''}; {self.losses}"

    @property
    def losses(self) -> str:
        """`7 crash: exit 1; 1 is being removed.`, most first."""
        parts = [f"{count} {loss.said(count)}" for loss, count in self.lost.most_common()]
        return "; ".join(parts) + "." if parts else ""

    @property
    def lasting(self) -> "Tally":
        """The same without what passes by itself."""
        kept = Counter({loss: count for loss, count in self.lost.items() if not loss.passes})
        return self._replace(lost=kept)


def tally(
    pods: Iterable[Body], *, wanted: int, is_ready: Callable[[Body], bool], over: Collection[int] = ()
) -> Tally:
    """`over`: the indexes of an array that failed for good. What starts or waits as it should is no loss."""
    known = list(pods)
    present = _present(known, wanted, over)
    lost = Counter(filter(None, map(_loss, present)))
    of = max(len(present), wanted if not any(map(_is_done, known)) else 0)
    return Tally(sum(is_ready(pod) and not _loss(pod) for pod in present), of, lost)


def _loss(pod: Body) -> Loss | None:
    status = pod.get("status") or {}
    if is_leaving(pod):
        return Loss("is being removed", "are being removed", _why_it_goes(pod), passes=True)
    if has_ended(pod):
        return Loss("has failed", "have failed", in_short(pod)) if status["phase"] == "Failed" else None
    waiting = stuck(pod)
    if waiting and waiting["reason"] == CRASH_LOOP:
        return Loss("crashes", "crash", in_short(pod) or CRASH_LOOP)
    if waiting:
        return Loss("cannot start", "cannot start", str(waiting["reason"]))
    if status.get("phase") != "Running" or not _is_unready(status, main_of(pod)):
        return None
    if any((each.get("state") or {}).get("terminated") for each in main_of(pod)) and in_short(pod):
        return Loss("crashes", "crash", in_short(pod))
    return Loss("is not ready", "are not ready", str(status.get("reason") or ""), passes=True)


def _why_it_goes(pod: Body) -> str:
    status = pod.get("status") or {}
    said = str(status.get("message") or "") or taken(pod)  # NodeLost: that its node does not answer
    return said.strip().rstrip(".")


def _is_unready(status: Body, statuses: Iterable[Body]) -> bool:
    """RULE: only what has been ready since its container started is no more; before that it starts."""
    ready: Body = next((each for each in status.get("conditions") or () if each.get("type") == "Ready"), {})
    begun = [
        str(((each.get("state") or {}).get("running") or {}).get("startedAt") or "") for each in statuses
    ]
    is_new = str(ready.get("lastTransitionTime") or "") <= max(begun, default="")
    return ready.get("status") in ("False", "Unknown") and not is_new


def _present(pods: Iterable[Body], wanted: int, over: Collection[int]) -> list[Body]:
    """Those that stand for what should run now.

    RULE: of an array the newest pod of each index; of pods that are alike those that stay, and of the others
    no more than are missing. What has ended well is not asked about.
    """
    known = list(pods)
    numbered = {_index(pod): pod for pod in sorted(known, key=_rank) if _index(pod) is not None}
    if numbered:
        return [pod for at, pod in numbered.items() if at not in over and not _is_done(pod)]
    staying = [pod for pod in known if not has_ended(pod) and not is_leaving(pod)]
    others = [pod for pod in known if (has_ended(pod) or is_leaving(pod)) and not _is_done(pod)]
    missing = max(0, wanted - len(staying) - sum(map(_is_done, known)))
    return [*staying, *sorted(others, key=_rank, reverse=True)[:missing]]


def _rank(pod: Body) -> tuple[bool, str]:
    return not is_leaving(pod), str(pod["metadata"].get("creationTimestamp") or "")


def _index(pod: Body) -> int | None:
    told = str((pod["metadata"].get("labels") or {}).get(INDEX, ""))
    return int(told) if told.isdecimal() else None


def _is_done(pod: Body) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"
