"""How much less of the same offer would start now. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Smaller:
    """A smaller request that would start now. `pods` None: as many as before, each with fewer devices.
    `hourly` is for all of it.
    """

    count: int
    pods: int | None
    hourly: Decimal | None
    currency: str = ""

    @property
    def words(self) -> str:
        """What it shrinks to."""
        if self.pods is not None:
            return f"{self.pods} at once"
        return "1 device" if self.count == 1 else f"{self.count} devices"


def shrunk(count: int, pods: int, *, available: int, places: Sequence[int]) -> tuple[int, int] | None:
    """The largest (devices of each pod, pods) that would start now and is less than what is asked for; None:
    nothing does.

    RULE: of several pods there are fewer, and each stays as it is; one pod gets fewer devices. `available` is
    what quota lets the tenant take.
    """
    if pods > 1:
        most = min(pods - 1, available // max(1, count), sum(free // max(1, count) for free in places))
        return (count, most) if count > 0 and most > 0 else None
    most = min(count - 1, available, max(places, default=0))
    return (most, 1) if most > 0 else None
