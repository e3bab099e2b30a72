"""Which price of the book is in force, for whom, on what kind of capacity, and when it changes. Pure.

A book has lanes: for one tenant and one capacity type, for one tenant, for one capacity type, for everybody.
The first lane of these with a price in force decides. In a lane a price with an end lies over those without:
once it is over, the one before it holds again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID


@dataclass(frozen=True)
class Listed:
    """A price as the book has it, in [valid_from, valid_until); None: until the next one of its lane.

    `tenant` None is everybody, `capacity` empty is any. What ended is charged in whole units of
    `least_seconds`.
    """

    hourly: Decimal
    valid_from: datetime
    valid_until: datetime | None = None
    tenant: UUID | None = None
    capacity: str = ""
    least_seconds: int = 1

    @property
    def lane(self) -> tuple[UUID | None, str]:
        """What it is for."""
        return self.tenant, self.capacity

    def holds(self, at: datetime) -> bool:
        """Whether the moment lies in its dates."""
        return self.valid_from <= at and (self.valid_until is None or at < self.valid_until)


@dataclass(frozen=True)
class Step:
    """From this moment on `price` is in force; None: nothing costs anything."""

    at: datetime
    price: Listed | None


def in_force(book: Iterable[Listed], *, tenant: UUID | None, capacity: str, at: datetime) -> Listed | None:
    """RULE: the tenant's own price before everybody's, then that of the capacity type before any; within
    a lane the one that began last.
    """
    found = [each for each in book if _is_for(each, tenant, capacity) and each.holds(at)]
    return max(found, key=_weight, default=None)


def timeline(book: Iterable[Listed], *, tenant: UUID | None, capacity: str) -> list[Step]:
    """Every moment at which the price in force changes, in order; before the first one there is none.

    RULE: a price that goes on with what it follows is no change: an import puts such a one before the first.
    """
    meant = [each for each in book if _is_for(each, tenant, capacity)]
    moments = {each.valid_from for each in meant} | {e.valid_until for e in meant if e.valid_until}
    steps: list[Step] = []
    for at in sorted(moments):
        price = in_force(meant, tenant=tenant, capacity=capacity, at=at)
        if not steps or _what(steps[-1].price) != _what(price):
            steps.append(Step(at, price))
    return steps


def moves(book: Iterable[Listed], begins: datetime, ends: datetime) -> datetime | None:
    """When what anybody pays changes last in (begins, ends); `ends` where it counts in units longer than a
    second, None where it stays as it is.

    RULE: where no lane changes, none decides that did not before.
    """
    lanes = defaultdict[tuple[UUID | None, str], list[Listed]](list)
    for each in book:
        lanes[each.lane].append(each)
    if any(each.least_seconds > 1 for lane in lanes.values() for each in lane):
        return ends
    changes = (
        step.at
        for (tenant, capacity), lane in lanes.items()
        for step in timeline(lane, tenant=tenant, capacity=capacity)
        if begins < step.at < ends
    )
    return max(changes, default=None)


def clash(lane: Sequence[Listed], new: Listed) -> Listed | None:
    """The price of the same lane whose dates the new one's cross; None: they go together.

    RULE: no two begin at one moment; none begins while one with an end is in force; one with an end does
    not reach over the beginning of another.
    """
    for each in lane:
        if each.valid_from == new.valid_from or _covers(each, new) or _covers(new, each):
            return each
    return None


def _covers(over: Listed, each: Listed) -> bool:
    return over.valid_until is not None and over.valid_from <= each.valid_from < over.valid_until


def _is_for(price: Listed, tenant: UUID | None, capacity: str) -> bool:
    return price.tenant in (None, tenant) and price.capacity in ("", capacity)


def _what(price: Listed | None) -> tuple[Decimal, int] | None:
    return (price.hourly, price.least_seconds) if price else None


def _weight(price: Listed) -> tuple[bool, bool, datetime]:
    return price.tenant is not None, bool(price.capacity), price.valid_from
