"""How many devices of an offer a tenant used, borrowed and lent over time. Pure: values in, values out.

The rule at each moment is the ledger's (`rules.fit`), applied to what was held and promised then.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from apps.quotas.allowances.rules import fit


class Held(NamedTuple):
    """So many devices that a tenant held in [begins, ends); no end: it still does. A tuple: a month of a
    department has thousands.
    """

    tenant: str
    begins: datetime
    ends: datetime | None
    devices: int = 1


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


class State(NamedTuple):
    """The same at one moment, in devices; `used` is what ran, known or not."""

    used: int
    guaranteed: int | None = None
    lent: int | None = None


Parts = Mapping[State, float]
"""States of a step with their seconds."""
Turn = tuple[datetime, str, int]
"""From when on a tenant has so many devices more, or fewer."""


def steps(
    tenant: str, held: Iterable[Held], promised: Sequence[Promise], *, edges: Sequence[datetime]
) -> list[Step]:
    """One step between each two edges, in order. `held` and `promised` are of the whole department.

    RULE: exact between any two changes; a device is counted from its first to before its last moment.
    """
    changes = {each.at for each in promised if edges[0] < each.at < edges[-1]}
    spells = pairwise(sorted({*edges, *changes}))
    parts = [defaultdict[State, float](float) for _ in edges[1:]]
    place = 0
    for begins, ends, state in _states(_Department(tenant, promised), _turns(held), spells):
        while edges[place + 1] <= begins:
            place += 1
        parts[place][state] += (ends - begins).total_seconds()
    return [_step(begins, parts[i], ends - begins) for i, (begins, ends) in enumerate(pairwise(edges))]


def _turns(held: Iterable[Held]) -> list[Turn]:
    turns = list[Turn]()
    for tenant, begins, ends, count in held:
        turns.append((begins, tenant, count))
        if ends is not None:
            turns.append((ends, tenant, -count))
    turns.sort(key=itemgetter(0))
    return turns


def _states(
    team: "_Department", turns: Sequence[Turn], spells: Iterable[tuple[datetime, datetime]]
) -> Iterator[tuple[datetime, datetime, State]]:
    """How it is with the tenant between moments at which that may change. In a spell no promise does."""
    place = 0
    for begins, ends in spells:
        team.reach(begins)
        since, lends = begins, team.has_room
        while place < len(turns) and turns[place][0] < ends:
            at, tenant, more = turns[place]
            place += 1
            # What a neighbour has more matters only to who has something to lend.
            is_own = tenant == team.tenant
            if (is_own or lends) and at > since:
                yield since, at, team.state()
                since = at
            team.take(tenant, more)
            lends = team.has_room if is_own else lends
        yield since, ends, team.state()


class _Department:
    """What its tenants use and are guaranteed at a moment, as one of them sees it.

    The rooms of neighbours are reckoned when that one has something to lend, and then only of those that
    changed: a week of a department has thousands of moments, and each would ask all of its tenants.
    """

    def __init__(self, tenant: str, promised: Sequence[Promise]) -> None:
        self.tenant = tenant
        self._coming = sorted(promised, key=lambda each: each.at, reverse=True)
        self._used, self._guaranteed = defaultdict[str, int](int), dict[str, int | None]()
        self._changed, self._unknown = set[str](), set[str]()
        self._rooms = defaultdict[str, int](int)
        self._ahead, self._behind, self._borrowed = Counter[int](), Counter[int](), 0

    def reach(self, at: datetime) -> None:
        """Take what is promised until then."""
        while self._coming and self._coming[-1].at <= at:
            word = self._coming.pop()
            self._guaranteed[word.tenant] = word.count
            self._changed.add(word.tenant)

    def take(self, tenant: str, more: int) -> None:
        """So many devices more, or fewer."""
        self._used[tenant] += more
        self._changed.add(tenant)

    @property
    def has_room(self) -> bool:
        """Whether it does not use all that it is guaranteed."""
        return self._used[self.tenant] < (self._guaranteed.get(self.tenant) or 0)

    def state(self) -> State:
        """How it is with the tenant now."""
        nominal, running = self._guaranteed.get(self.tenant), self._used[self.tenant]
        if nominal is None or running >= nominal:
            return State(running, nominal, None if nominal is None else 0)
        self._settle()
        # A neighbour that ran nothing is taken to have had nothing until its guarantee is known.
        if self._unknown:
            return State(running, nominal)
        return State(
            running, nominal, fit.part_lent(nominal - running, self._ahead, self._behind, self._borrowed)
        )

    def _settle(self) -> None:
        """RULE: a neighbour's room is what it is guaranteed and does not use; below 0, it borrows that."""
        for tenant in self._changed - {self.tenant}:
            nominal, running = self._guaranteed.get(tenant), self._used[tenant]
            before, room = self._rooms[tenant], (nominal or 0) - running
            self._rooms[tenant] = room
            self._borrowed += max(0, -room) - max(0, -before)
            sizes = self._ahead if tenant < self.tenant else self._behind
            _move(sizes, before, room)
            if nominal is None and running:
                self._unknown.add(tenant)
            else:
                self._unknown.discard(tenant)
        self._changed.clear()


def _move(sizes: Counter[int], before: int, now: int) -> None:
    """One room of that size less, one of this size more; who has none is not counted."""
    if before > 0:
        sizes[before] -= 1
        if not sizes[before]:
            del sizes[before]
    if now > 0:
        sizes[now] += 1


def _step(at: datetime, parts: Parts, length: timedelta) -> Step:
    def mean(of: Callable[[State], int]) -> float:
        return sum(of(state) * seconds for state, seconds in parts.items()) / length.total_seconds()

    if any(state.guaranteed is None for state in parts):
        return Step(at, None, None, None, None, mean(lambda state: state.used))
    guaranteed = mean(lambda state: state.guaranteed or 0)
    own = mean(lambda state: min(state.used, state.guaranteed or 0))
    borrowed = mean(lambda state: max(0, state.used - (state.guaranteed or 0)))
    if any(state.lent is None for state in parts):
        return Step(at, guaranteed, own, borrowed, None, max(0.0, guaranteed - own))
    return Step(at, guaranteed, own, borrowed, mean(lambda state: state.lent or 0))
