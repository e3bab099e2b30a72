"""What an answer to malicious input may be, and what it may cost."""

from typing import Any

from tests.hostile import corpus
from tests.matrix import asking
from tests.sample import EXHAUSTIVE

BUDGET_MS = 200.0
"""For a body of 1 MiB."""
LARGEST_ANSWER = 256 * 1024
PART = 1 if EXHAUSTIVE else 4
"""A value of the sample has a part of the size and of the budget: what grows faster than its body shows."""
FIXED_MS = 40.0
"""Of the budget, for what a request costs whatever its body."""
PART_BUDGET_MS = FIXED_MS + (BUDGET_MS - FIXED_MS) / PART


def wrong(answer: Any, name: str, value: str) -> str:
    """What is wrong with a page: an error of ours, markup as it was typed, a header that was split."""
    shown = asking.body_of(answer).decode("utf-8", "replace")
    raw = [markup for markup in corpus.UNSAFE if markup in shown]
    lines = [header for header in answer.headers.values() if "\n" in header or "\r" in header]
    if answer.status_code >= 500 or raw or lines:
        return f"{name}={value[:40]!r}: {answer.status_code} {raw} {lines}"
    return ""
