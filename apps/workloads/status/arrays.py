"""How far an array is, from its Job's status. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from apps.workloads import items

Body = Mapping[str, Any]
MOST = 99_999
"""The highest number that is read: a Job with tries for each index has no higher one."""


class Progress(TypedDict):
    """How many items there are, and which of them ended how, as text of their own numbers: `3,7-9`."""

    total: int
    done: str
    failed: str


def progress_of(job: Body | None, numbered: Sequence[int]) -> Progress | None:
    """`numbered`: the item of each index. None for what is no array, and where its Job is not seen.

    Source: batch/v1 JobStatus completedIndexes and failedIndexes; both are absent on a fresh Job.
    """
    if job is None or not numbered:
        return None
    status = job.get("status") or {}
    done, failed = (
        [at for at in items.numbers(str(status.get(name) or ""), most=MOST) if at < len(numbered)]
        for name in ("completedIndexes", "failedIndexes")
    )
    return {
        "total": len(numbered),
        "done": items.text(numbered[index] for index in done),
        "failed": items.text(numbered[index] for index in failed),
    }


def present(pods: Iterable[Body]) -> list[Body]:
    """The pods that have not ended; where none is left, one of each node that it ran on."""
    found = list(pods)
    going = [pod for pod in found if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    return going or list({(pod.get("spec") or {}).get("nodeName"): pod for pod in found}.values())


@dataclass(frozen=True)
class Standing:
    """How far an array is, by the numbers of its items."""

    numbered: tuple[int, ...]
    done: tuple[int, ...]
    failed: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many items there are."""
        return len(self.numbered)

    @property
    def left(self) -> int:
        """How many have neither ended well nor failed for good."""
        return self.total - len(self.done) - len(self.failed)

    @property
    def missing(self) -> tuple[int, ...]:
        """Those that did not end well: what failed, and what never came to an end."""
        return tuple(sorted(set(self.numbered) - set(self.done)))

    @property
    def done_text(self) -> str:
        """Such as `0-2,5`."""
        return items.text(self.done)

    @property
    def failed_text(self) -> str:
        """Such as `3,7-9`."""
        return items.text(self.failed)

    @property
    def failed_words(self) -> str:
        """The same for people: `3, 7-9`."""
        return items.text(self.failed, between=", ")


def standing(kept: Mapping[str, Any] | None, numbered: tuple[int, ...]) -> Standing | None:
    """What a row keeps of its progress (None: nothing was seen yet) for these items; None for no array."""
    if not numbered:
        return None
    told, known = kept or {}, set(numbered)
    done, failed = (
        # What it was asked for may have changed since.
        tuple(item for item in items.numbers(str(told.get(name) or ""), most=MOST) if item in known)
        for name in ("done", "failed")
    )
    return Standing(numbered, done, failed)
