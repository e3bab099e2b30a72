"""Which of a log's last lines a page does not show yet. Pure.

Log lines carry no number, so a page remembers a mark: a digest of the last lines that it shows.
"""

import hashlib
import re
from collections.abc import Sequence

REACH = 3
"""How many lines make a mark: one alone may well come twice."""


def mark(lines: Sequence[str]) -> str:
    """What a page remembers of the end of its lines; empty where there are none."""
    end = "\n".join(lines[-REACH:])
    return hashlib.sha256(end.encode()).hexdigest()[:16] if lines else ""


def matching(lines: Sequence[str], search: str) -> list[list[str]]:
    """The lines in which a text is found, in any case: in pieces, of which every second one is a find."""
    if not search:
        return [[line] for line in lines]
    found = (re.split(f"({re.escape(search)})", line, flags=re.IGNORECASE) for line in lines)
    return [pieces for pieces in found if len(pieces) > 1]


def after(lines: Sequence[str], known: str) -> list[str]:
    """The lines behind the newest place that fits the mark; all of them where none does."""
    if not known:
        return list(lines)
    ends = range(len(lines), 0, -1)
    found = next((end for end in ends if mark(lines[:end]) == known), 0)
    return list(lines[found:])
