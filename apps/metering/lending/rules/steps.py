"""How many devices of an offer a tenant used, borrowed and lent over time. Pure: values in, values out.

The rule at each moment is the ledger's (`rules.fit`), applied to what was held and promised then.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from apps.quotas.allowances.rules import fit


class Held(NamedTuple):
    """One device that a tenant held in [begins, ends). A tuple: a month of a department has thousands."""

    tenant: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Promise:
    """What a tenant is guaranteed from a moment on, until its next one; None: nobody knows."""

    tenant: str
    at: datetime
    count: int | None


@dataclass(frozen=True)
class Step:
    """What one tenant had in a step, in devices: each is device-seconds over the step's length, so of an hour
    half of which one device was lent it says 0.5. `own` is what ran within the guarantee.

    None is unknown, never 0: `guaranteed`, `own` and `borrowed` where the guarantee is not known all through
    the step, `lent` and `idle` also where that of a neighbour is not that ran something. `unknown` is the
    devices of which nobody can tell: those that ran, else those that were lent or lay idle.
    """

    at: datetime
    guaranteed: float | None
    own: float | None
    borrowed: float | None
    lent: float | None
    unknown: float = 0.0

    @property
    def idle(self) -> float | None:
        """Guaranteed devices on which nobody ran."""
        if self.guaranteed is None or self.own is None or self.lent is None:
            return None
        return max(0.0, self.guaranteed - self.own - self.lent)

    @property
    def devices(self) -> float:
        """All that the step tells of."""
        return sum(each or 0.0 for each in (self.own, self.lent, self.idle, self.unknown, self.borrowed))


@dataclass(frozen=True)
class State:
    """The same at one moment, in devices; `used` is what ran, known or not."""

    used: int
    guaranteed: int | None = None
    lent: int | None = None


Parts = list[tuple[State, float]]
"""States of a step with their seconds."""
Turns = dict[datetime, dict[str, int]]
"""By how many devices each tenant has more, or fewer, from a moment on."""


def steps(
    tenant: str, held: Sequence[Held], promised: Sequence[Promise], *, edges: Sequence[datetime]
) -> list[Step]:
    """One step between each two edges, in order. `held` and `promised` are of the whole department.

    RULE: exact between any two changes; a device is counted from its first to before its last moment.
    """
    found: dict[datetime, Parts] = {}
    place = 0
    for at, (begins, ends) in _states(tenant, _turns(held), promised, edges):
        while edges[place + 1] <= begins:
            place += 1
        found.setdefault(edges[place], []).append((at, (ends - begins).total_seconds()))
    return [_step(edges[i], found[edges[i]], edges[i + 1] - edges[i]) for i in range(len(edges) - 1)]


def _turns(held: Iterable[Held]) -> Turns:
    found: Turns = defaultdict(lambda: defaultdict(int))
    for tenant, begins, ends in held:
        found[begins][tenant] += 1
        found[ends][tenant] -= 1
    return found


def _states(
    tenant: str, turns: Turns, promised: Sequence[Promise], edges: Sequence[datetime]
) -> Iterator[tuple[State, tuple[datetime, datetime]]]:
    """How it is with the tenant between each two moments at which anything changes."""
    words = sorted(promised, key=lambda each: each.at)
    changes = {at for at in (*turns, *(each.at for each in words)) if edges[0] < at < edges[-1]}
    times, team = sorted(turns), _Department()
    turn = word = 0
    for begins, ends in pairwise(sorted({*edges, *changes})):
        while turn < len(times) and times[turn] <= begins:
            team.take(turns[times[turn]])
            turn += 1
        while word < len(words) and words[word].at <= begins:
            team.is_promised(words[word].tenant, words[word].count)
            word += 1
        yield team.state_of(tenant), (begins, ends)


class _Department:
    """What each tenant uses and is guaranteed at a moment. Only what a change touches is told anew: a week
    of a department has thousands of moments, and each would ask all of its tenants.
    """

    def __init__(self) -> None:
        self.used, self.guaranteed = Counter[str](), dict[str, int | None]()
        self.idle, self.borrowed = dict[str, int](), Counter[str]()
        self.in_all = 0
        self.unknown = set[str]()

    def take(self, more: Mapping[str, int]) -> None:
        """So many devices more, or fewer, by tenant."""
        for tenant, count in more.items():
            if count:
                self.used[tenant] += count
                self._tell(tenant)

    def is_promised(self, tenant: str, count: int | None) -> None:
        """What it is guaranteed from now on; None: nobody knows."""
        self.guaranteed[tenant] = count
        self._tell(tenant)

    def state_of(self, tenant: str) -> State:
        """How it is with one of them now."""
        nominal, running = self.guaranteed.get(tenant), self.used[tenant]
        if nominal is None:
            return State(running)
        # A neighbour that ran nothing is taken to have had nothing until its guarantee is known.
        if running < nominal and self.unknown:
            return State(running, nominal)
        own = self.idle[tenant]
        others = (room for name, room in self.idle.items() if name != tenant)
        return State(running, nominal, fit.part_lent([own, *others], self.in_all) if own else 0)

    def _tell(self, tenant: str) -> None:
        nominal, running = self.guaranteed.get(tenant), self.used[tenant]
        room = (nominal or 0) - running
        self.idle[tenant], borrows = (room, 0) if room > 0 else (0, -room)
        self.in_all += borrows - self.borrowed[tenant]
        self.borrowed[tenant] = borrows
        if nominal is None and running:
            self.unknown.add(tenant)
        elif self.unknown:
            self.unknown.discard(tenant)


def _step(at: datetime, parts: Parts, length: timedelta) -> Step:
    def mean(of: Callable[[State], int]) -> float:
        return sum(of(state) * seconds for state, seconds in parts) / length.total_seconds()

    if any(state.guaranteed is None for state, _ in parts):
        return Step(at, None, None, None, None, mean(lambda state: state.used))
    guaranteed = mean(lambda state: state.guaranteed or 0)
    own = mean(lambda state: min(state.used, state.guaranteed or 0))
    borrowed = mean(lambda state: max(0, state.used - (state.guaranteed or 0)))
    if any(state.lent is None for state, _ in parts):
        return Step(at, guaranteed, own, borrowed, None, max(0.0, guaranteed - own))
    return Step(at, guaranteed, own, borrowed, mean(lambda state: state.lent or 0))
