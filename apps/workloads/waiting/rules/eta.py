"""When what waits will start: an interval from what runs, how long such work took before, and who is ahead.
Pure.

A seeded simulation of one department's queue for one offer: runs end, whoever is next and fits starts, as in
Kueue's BestEffortFIFO. Where an end is unknown, nothing is promised. Preemption is not foreseen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from math import inf
from random import Random

from apps.quotas.allowances.rules.fit import Use, available
from apps.quotas.specs import OfferQuota

DRAWS = 60
MOST_ASKS = 60
"""Who stands further back is told "unknown": an estimate over so many unknown ends says nothing."""
LEAST_SAMPLES = 5
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9

Seconds = float


@dataclass(frozen=True)
class Interval:
    """Eight of ten starts should fall between `p10` and `p90`."""

    p10: datetime
    p50: datetime
    p90: datetime


@dataclass(frozen=True)
class Run:
    """What holds devices: since when, and when its lease ends at the latest (None: no end is set)."""

    tenant: str
    kind: str
    count: int
    since: datetime
    ends_at: datetime | None = None


@dataclass(frozen=True)
class Ask:
    """What waits, in the order of the queue; `longest` is its lease in seconds."""

    id: str
    tenant: str
    kind: str
    count: int
    longest: Seconds | None = None


@dataclass(frozen=True)
class History:
    """How long work took, by kind and tenant, in seconds."""

    samples: Mapping[tuple[str, str], Sequence[Seconds]] = field(default_factory=dict)

    def of(self, kind: str, tenant: str) -> Sequence[Seconds]:
        """The tenant's own experience; everybody's of that kind where it is too little; else nothing."""
        own = self.samples.get((kind, tenant), ())
        if len(own) >= LEAST_SAMPLES:
            return own
        every = [s for (k, _), taken in self.samples.items() if k == kind for s in taken]
        return every if len(every) >= LEAST_SAMPLES else ()


@dataclass(frozen=True)
class Pool:
    """One offer in one department: each tenant's quota, and the devices that exist and work."""

    quotas: Mapping[str, OfferQuota]
    devices: int


def estimate(
    pool: Pool, runs: Sequence[Run], asks: Sequence[Ask], history: History, *, now: datetime, seed: int
) -> dict[str, Interval]:
    """The interval for each ask about which enough is known; the others are absent.

    RULE: quantiles 10, 50 and 90 % of the simulated starts; unknown if one draw in ten never starts it.
    """
    chosen, dice = asks[:MOST_ASKS], Random(seed)
    starts: dict[str, list[Seconds]] = {ask.id: [] for ask in chosen}
    for _ in range(DRAWS):
        drawn = _Draw(pool, history, dice, now).play(runs, chosen)
        for ask in chosen:
            starts[ask.id].append(drawn.get(ask.id, inf))
    return {name: found for name, seconds in starts.items() if (found := _interval(seconds, now))}


def coverage(outcomes: Iterable[tuple[datetime, datetime, datetime]]) -> tuple[int, int]:
    """How many starts fell inside their interval, and of how many: (p10, p90, started) each."""
    judged = [low <= started <= high for low, high, started in outcomes]
    return sum(judged), len(judged)


def _interval(seconds: list[Seconds], now: datetime) -> Interval | None:
    seconds.sort()
    low, middle, high = (seconds[int(part * (len(seconds) - 1))] for part in (LOW, MIDDLE, HIGH))
    if high == inf:
        return None
    return Interval(*(now + timedelta(seconds=round(value)) for value in (low, middle, high)))


class _Draw:
    """One way in which it may go."""

    def __init__(self, pool: Pool, history: History, dice: Random, now: datetime) -> None:
        self.history, self.dice, self.now = history, dice, now
        self.uses = {tenant: Use(quota, 0) for tenant, quota in pool.quotas.items()}
        self.free = pool.devices
        self.ends: list[tuple[Seconds, str, int]] = []

    def play(self, runs: Sequence[Run], asks: Sequence[Ask]) -> dict[str, Seconds]:
        """When each ask starts, in seconds from now; absent: never in this draw."""
        for run in runs:
            self._take(run.tenant, run.count)
            self.ends.append((self._rest(run), run.tenant, run.count))
        heapify(self.ends)
        starts: dict[str, Seconds] = {}
        waiting, at = list(asks), 0.0
        while waiting and at != inf:
            waiting = self._start(waiting, at, starts)
            if not self.ends:
                break
            at, tenant, count = heappop(self.ends)
            self._take(tenant, -count)
        return starts

    def _start(self, waiting: list[Ask], at: Seconds, starts: dict[str, Seconds]) -> list[Ask]:
        room = self._room()
        still = []
        for ask in waiting:
            if ask.count > min(self.free, room.get(ask.tenant, 0)):
                still.append(ask)
                continue
            starts[ask.id] = at
            self._take(ask.tenant, ask.count)
            heappush(self.ends, (at + self._whole(ask), ask.tenant, ask.count))
            room = self._room()
        return still

    def _room(self) -> dict[str, int]:
        if self.free <= 0:
            return {}
        uses = self.uses
        return {t: available(use, [u for o, u in uses.items() if o != t]) for t, use in uses.items()}

    def _take(self, tenant: str, count: int) -> None:
        self.free -= count
        if tenant in self.uses:
            use = self.uses[tenant]
            self.uses[tenant] = replace(use, used=use.used + count)

    def _rest(self, run: Run) -> Seconds:
        """What is left of a run: past durations longer than it took already, at most its lease."""
        elapsed = max(0.0, (self.now - run.since).total_seconds())
        left = max(0.0, (run.ends_at - self.now).total_seconds()) if run.ends_at else None
        longer = [s - elapsed for s in self.history.of(run.kind, run.tenant) if s > elapsed]
        return self._drawn(longer, left)

    def _whole(self, ask: Ask) -> Seconds:
        return self._drawn(self.history.of(ask.kind, ask.tenant), ask.longest)

    def _drawn(self, known: Sequence[Seconds], most: Seconds | None) -> Seconds:
        """One of the known durations; without any, any moment until the lease's end; else never."""
        if known:
            return min(self.dice.choice(known), inf if most is None else most)
        return inf if most is None else self.dice.uniform(0, most)
