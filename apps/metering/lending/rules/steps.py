"""How many devices of an offer a tenant used, borrowed and lent over time. Pure: values in, values out.

The rule at each moment is the ledger's (`rules.fit`), applied to what was held and promised then.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from apps.quotas.allowances.rules import fit
from apps.quotas.specs import OfferQuota


@dataclass(frozen=True)
class Held:
    """One device that a tenant held in [begins, ends)."""

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


def steps(
    tenant: str, held: Sequence[Held], promised: Sequence[Promise], *, edges: Sequence[datetime]
) -> list[Step]:
    """One step between each two edges, in order. `held` and `promised` are of the whole department.

    RULE: exact between any two changes; a device is counted from its first to before its last moment.
    """
    moments = sorted({*edges, *_inside(_changes(held, promised), edges)})
    found: dict[datetime, Parts] = {}
    place = 0
    for at, (begins, ends) in _states(tenant, held, promised, moments):
        while edges[place + 1] <= begins:
            place += 1
        found.setdefault(edges[place], []).append((at, (ends - begins).total_seconds()))
    return [_step(edges[i], found[edges[i]], edges[i + 1] - edges[i]) for i in range(len(edges) - 1)]


def _changes(held: Sequence[Held], promised: Sequence[Promise]) -> Iterator[datetime]:
    for each in held:
        yield from (each.begins, each.ends)
    yield from (each.at for each in promised)


def _inside(moments: Iterator[datetime], edges: Sequence[datetime]) -> Iterator[datetime]:
    return (moment for moment in moments if edges[0] < moment < edges[-1])


def _states(
    tenant: str, held: Sequence[Held], promised: Sequence[Promise], moments: Sequence[datetime]
) -> Iterator[tuple[State, tuple[datetime, datetime]]]:
    """How it is with the tenant between each two moments."""
    turns = sorted(
        [(each.begins, each.tenant, 1) for each in held] + [(each.ends, each.tenant, -1) for each in held]
    )
    words = sorted(promised, key=lambda each: each.at)
    used, guaranteed = Counter[str](), dict[str, int | None]()
    turn = word = 0
    for begins, ends in pairwise(moments):
        while turn < len(turns) and turns[turn][0] <= begins:
            used[turns[turn][1]] += turns[turn][2]
            turn += 1
        while word < len(words) and words[word].at <= begins:
            guaranteed[words[word].tenant] = words[word].count
            word += 1
        yield _state(tenant, used, guaranteed), (begins, ends)


def _state(tenant: str, used: Mapping[str, int], guaranteed: Mapping[str, int | None]) -> State:
    nominal, running = guaranteed.get(tenant), used.get(tenant, 0)
    if nominal is None:
        return State(running)
    others = sorted({*used, *guaranteed} - {tenant})
    # A neighbour that ran nothing is taken to have had nothing until its guarantee is known.
    if running < nominal and any(used.get(name) and guaranteed.get(name) is None for name in others):
        return State(running, nominal)
    uses = [_use(name, used, guaranteed) for name in others]
    return State(running, nominal, fit.lent(_use(tenant, used, guaranteed), uses))


def _use(name: str, used: Mapping[str, int], guaranteed: Mapping[str, int | None]) -> fit.Use:
    quota = OfferQuota("", "", "", guaranteed.get(name) or 0, None, None)
    return fit.Use(quota, used.get(name, 0))


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
