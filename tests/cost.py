"""What something costs in this process' work, in milliseconds of a calm machine: load divides away.

A loaded machine makes the same work dearer, by half or more: caches are shared, and so are cores. So each
measure stands beside a yardstick of the same moment, and only their ratio counts.
"""

import json
import time
from collections.abc import Callable

YARDSTICK_MS = 10.0
"""What the yardstick takes on a calm machine, one of those that docs/figures.md was measured on."""
_TEXT = json.dumps([{"name": f"row {number}", "count": number, "is": [1, 2, 3]} for number in range(8600)])


def yardstick() -> None:
    """Work of C and of Python, about half and half."""
    rows = json.loads(_TEXT)
    assert sum(len(row["name"]) + row["count"] for row in rows) > 0
    for _ in range(3):
        rows = [{**row, "count": row["count"] + 1} for row in rows]


def calm_ms(ask: Callable[[], object], budget: float) -> float:
    """The least of up to three measures; no more are taken once one is within the budget, and no yardstick
    where no machine twice as fast as the calm one could hide that it is not.
    """
    least = float("inf")
    for _ in range(3):
        spent = _spent(ask)
        if 2 * spent * 1000 <= budget:
            return spent * 1000
        least = min(least, spent / (_spent(yardstick) / YARDSTICK_MS))
        if least <= budget:
            break
    return least


def _spent(ask: Callable[[], object]) -> float:
    began = time.process_time()
    ask()
    return max(time.process_time() - began, 1e-6)
