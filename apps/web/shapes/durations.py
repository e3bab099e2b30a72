"""Spans of time as people read them. Pure."""

from datetime import datetime
from math import ceil


def duration(seconds: float, *, up: bool = False) -> str:
    """`40 s`, `52 min`, `8 h`, `3 h 05 min`, `4 d 2 h`. Minutes are cut, or rounded up for what is left."""
    if seconds < 60 and not up:
        return f"{int(seconds)} s"
    minutes = ceil(seconds / 60) if up else int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if not minutes and hours < 72:
        return f"{hours} h"
    if hours < 72:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def clock(at: datetime, now: datetime) -> str:
    """`14:05`, or `21 Nov 14:05` where it is not today's."""
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%-d %b %H:%M}"
