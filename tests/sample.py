"""How much of a product of lists a run takes: a sample in `make test` and the gate, all in `make verify`.

A test that takes long as a whole carries the marker `exhaustive`; a test that goes through a product takes
`sampled` of it. The sample follows from the place in the product, never from chance, so that a red run is red
again. See docs/decisions/0154.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EXHAUSTIVE = bool(os.environ.get("EXHAUSTIVE"))
"""`make verify` sets it."""


def sampled(values: Sequence[T], turn: int, some: int) -> Sequence[T]:
    """All values if exhaustive, else `some` of them: the next ones for each next turn, then again from the
    first. So a list is used up over the turns of a test.
    """
    begin = turn * some % max(len(values), 1)
    return values if EXHAUSTIVE or len(values) <= some else [*values, *values][begin : begin + some]


def every(step: int, values: Sequence[T], turn: int = 0) -> Sequence[T]:
    """All values if exhaustive, else every `step`-th, beginning at another one in each turn; one at least."""
    return values if EXHAUSTIVE else values[turn % max(1, min(step, len(values))) :: step]


def examples(most: int) -> int:
    """How many examples Hypothesis makes: all if exhaustive, else a sixth."""
    return most if EXHAUSTIVE else max(1, most // 6)
