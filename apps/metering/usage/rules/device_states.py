"""What a device did in a span of time, as one state: the first that holds. Pure."""

from bisect import bisect_left
from typing import NamedTuple

from apps.words import Word

SPARSE = 0.5
"""Below this share of what was held, a device's time is unknown."""


class State(Word):
    """What a device did, in the order in which the states are asked."""

    MAINTENANCE = "maintenance", "in maintenance"
    UNKNOWN = "unknown", "unknown: no telemetry"
    FREE = "free", "free"
    HOARDED = "hoarded", "hoarded"
    IDLE = "idle", "idle"
    USED_25 = "used-25", "used, SM active to 25 %"
    USED_50 = "used-50", "to 50 %"
    USED_75 = "used-75", "to 75 %"
    USED_100 = "used-100", "to 100 %"

    @property
    def short(self) -> str:
        """The word alone, for the head of a column."""
        return self.value

    @property
    def is_used(self) -> bool:
        """Held, and at work."""
        return self.value.startswith("used-")


class Spell(NamedTuple):
    """What one device did in one cell, as device-time in any one unit. A tuple, because a picture has a
    thousand.

    `whole` is the cell, `apart` maintenance, `held` what somebody held, `seen` what telemetry tells of that;
    of what was seen, `hoarded`, `idle`, and `sm`, the time x SM active.
    """

    whole: float
    apart: float = 0.0
    held: float = 0.0
    seen: float = 0.0
    hoarded: float = 0.0
    idle: float = 0.0
    sm: float = 0.0


_LIMITS = (0.25, 0.5, 0.75)
_LEVELS = (State.USED_25, State.USED_50, State.USED_75, State.USED_100)


def state_of(spell: Spell) -> State:
    """RULE: the first that holds: maintenance for most of the cell; unknown: less than half of what was held
    is seen; free: nobody held it; hoarded, idle: most of what was seen; else used, by SM active.
    """
    if spell.apart * 2 > spell.whole:
        return State.MAINTENANCE
    if spell.held <= spell.whole * 0.001:
        return State.FREE
    if spell.seen < spell.held * SPARSE:
        return State.UNKNOWN
    if spell.hoarded * 2 > spell.seen:
        return State.HOARDED
    if (spell.hoarded + spell.idle) * 2 > spell.seen:
        return State.IDLE
    return _used(spell.sm / spell.seen)


def _used(active: float) -> State:
    return _LEVELS[bisect_left(_LIMITS, active)]
