"""Which of a log's last lines a page does not show yet. Pure.

Log lines carry no number, so a page remembers a mark: a digest of the last lines that it shows.
"""

import hashlib
from collections.abc import Sequence

REACH = 3
"""How many lines make a mark: one alone may well come twice."""


def mark(lines: Sequence[str]) -> str:
    """What a page remembers of the end of its lines; empty where there are none."""
    end = "\n".join(lines[-REACH:])
    return hashlib.sha256(end.encode()).hexdigest()[:16] if lines else ""


def after(lines: Sequence[str], known: str) -> list[str]:
    """The lines behind the newest place that fits the mark; all of them where none does."""
    if not known:
        return list(lines)
    ends = range(len(lines), 0, -1)
    found = next((end for end in ends if mark(lines[:end]) == known), 0)
    return list(lines[found:])
