"""Simulated time, ids and seeded randomness of one cluster.

Nothing else in the sandbox reads the wall clock for objects.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

# The alphabet of apimachinery's util/rand: no vowels, so no words, and no look-alikes.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_SPEED = 60.0


class Clock(Protocol):
    """Where simulated `now` comes from."""

    speed: float

    def now(self) -> datetime:
        """Simulated time, aware UTC, never going back."""
        ...

    def set_speed(self, speed: float) -> None:
        """Simulated seconds per wall second, 1 to 60."""
        ...


def check_speed(speed: float) -> float:
    """A speed the clock may run at: 1 to 60 simulated seconds per wall second."""
    if not 1.0 <= speed <= MAX_SPEED:
        raise ValueError(f"speed must be between 1 and {MAX_SPEED:g}, not {speed:g}")
    return speed


class LiveClock:
    """Wall time, sped up from the moment it was last set; the lead over wall time is kept over restarts by
    the caller.
    """

    def __init__(
        self, *, speed: float = 1.0, start: datetime | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.speed = check_speed(speed)
        self._wall = wall
        self._wall_start = wall()
        self._start = start or datetime.fromtimestamp(self._wall_start, UTC)

    def now(self) -> datetime:
        """Simulated time."""
        lived = max(0.0, self._wall() - self._wall_start)
        return self._start + timedelta(seconds=lived * self.speed)

    def set_speed(self, speed: float) -> None:
        """Change the speed from now on; the past keeps its times."""
        here = self.now()
        self._start, self._wall_start, self.speed = here, self._wall(), check_speed(speed)

    def jump(self, seconds: float) -> None:
        """Move forward by this many simulated seconds."""
        self._start += timedelta(seconds=max(0.0, seconds))


class ManualClock:
    """Time that moves only when told: for tests."""

    def __init__(self, start: datetime) -> None:
        self.speed = 1.0
        self._now = start

    def now(self) -> datetime:
        """The moment it was last moved to."""
        return self._now

    def set_speed(self, speed: float) -> None:
        """Kept, without effect on a clock that stands."""
        self.speed = check_speed(speed)

    def jump(self, seconds: float) -> None:
        """Move forward by this many seconds."""
        self._now += timedelta(seconds=max(0.0, seconds))


class Ids:
    """Seeded identifiers. `epoch` changes with each start, so that a restart never repeats a uid."""

    def __init__(self, seed: int, epoch: int = 0) -> None:
        self.seed = seed
        self._stream = random.Random(f"{seed}/ids/{epoch}")

    def copy(self) -> Ids:
        """Identifiers that go on as these would."""
        twin = Ids(self.seed)
        twin._stream.setstate(self._stream.getstate())
        return twin

    def uid(self) -> str:
        """A random version 4 UUID."""
        return str(uuid.UUID(int=self._stream.getrandbits(128), version=4))

    def suffix(self, length: int = 5) -> str:
        """The random end of a generated name."""
        return "".join(self._stream.choice(SUFFIX_ALPHABET) for _ in range(length))

    def random(self, *salt: object) -> random.Random:
        """An own stream for a salt: the same cluster seed and salt give the same numbers, before and after
        a restart.
        """
        return random.Random("/".join(str(part) for part in (self.seed, *salt)))
