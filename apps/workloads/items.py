"""Numbers of an array's items as text: `0,3-5`, in the form in which a Job's status has its indexes. Pure."""

import re
from collections.abc import Iterable
from itertools import pairwise

RUNS = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
"""What `numbers` reads: runs and single numbers, without spaces."""


def numbers(text: str, *, most: int) -> tuple[int, ...]:
    """The numbers of a text in order, each once. Raises ValueError for what is no such text, runs
    backwards or has a number above `most`: a run is never spelled out before its end is known to be small.
    """
    if not text:
        return ()
    if not RUNS.fullmatch(text):
        raise ValueError("Numbers and runs of numbers, such as 3,7-9.")
    found: set[int] = set()
    for run in text.split(","):
        first, _, last = run.partition("-")
        start, end = int(first), int(last or first)
        if end < start:
            raise ValueError(f"{run} runs backwards.")
        if end > most:
            raise ValueError(f"Items are numbered from 0 to {most}.")
        found.update(range(start, end + 1))
    return tuple(sorted(found))


def text(found: Iterable[int], *, between: str = ",") -> str:
    """The shortest text of these numbers; of a pair both are named, as Kubernetes does."""
    ordered = sorted(set(found))
    if not ordered:
        return ""
    breaks = [index for index, (a, b) in enumerate(pairwise(ordered), start=1) if b != a + 1]
    runs = [ordered[a:b] for a, b in pairwise([0, *breaks, len(ordered)])]
    return between.join(_run(run, between) for run in runs)


def _run(run: list[int], between: str) -> str:
    if len(run) > 2:
        return f"{run[0]}-{run[-1]}"
    return between.join(str(number) for number in run)
