"""What an answer to malicious input may be, and what it may cost."""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.hostile import corpus
from tests.matrix import asking

T = TypeVar("T")
BUDGET_MS = 200.0
"""For a body of 1 MiB."""
LARGEST_ANSWER = 256 * 1024
EVERY = bool(os.environ.get("EVERY_BODY"))
"""Each value in each field, as large as may be (`make verify SUITE=bodies`); else each field gets a few
in turn, of a part of that size and of the budget: what grows faster than its body shows all the same.
"""
PART = 1 if EVERY else 4
FIXED_MS = 40.0
"""Of the budget, for what a request costs whatever its body."""
PART_BUDGET_MS = FIXED_MS + (BUDGET_MS - FIXED_MS) / PART


def in_turn(values: Sequence[T], number: int, some: int) -> Sequence[T]:
    """All of them in the long run, else `some`: the next ones for each next number, and round again."""
    begin = number * some % max(len(values), 1)
    return values if EVERY or len(values) <= some else [*values, *values][begin : begin + some]


def wrong(answer: Any, name: str, value: str) -> str:
    """What is wrong with a page: an error of ours, markup as it was typed, a header that was split."""
    shown = asking.body_of(answer).decode("utf-8", "replace")
    raw = [markup for markup in corpus.UNSAFE if markup in shown]
    lines = [header for header in answer.headers.values() if "\n" in header or "\r" in header]
    if answer.status_code >= 500 or raw or lines:
        return f"{name}={value[:40]!r}: {answer.status_code} {raw} {lines}"
    return ""
