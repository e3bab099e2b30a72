"""kubectl's short durations. Pure text."""

from __future__ import annotations

from datetime import datetime

# Up to this many seconds: the first unit, how long it is, and the second unit where one is shown.
_STEPS = (
    (120, "s", 1, "", 1),
    (600, "m", 60, "s", 1),
    (10_800, "m", 60, "", 1),
    (28_800, "h", 3_600, "m", 60),
    (172_800, "h", 3_600, "", 1),
    (691_200, "d", 86_400, "h", 3_600),
    (63_072_000, "d", 86_400, "", 1),
    (252_288_000, "y", 31_536_000, "d", 86_400),
)


def age(then: datetime, now: datetime) -> str:
    """duration.HumanDuration: 45s, 3m20s, 12m, 5h, 3d4h, 12d, 2y; a time in the future is <invalid>."""
    seconds = int((now - then).total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(0, seconds)
    for limit, unit, size, small, part in _STEPS:
        if seconds < limit:
            rest = seconds % size // part if small else 0
            return f"{seconds // size}{unit}" + (f"{rest}{small}" if rest else "")
    return f"{seconds // 31_536_000}y"
