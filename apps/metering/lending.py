"""How many devices of an offer a tenant used, borrowed and lent over time. Pure: values in, values out.

The rule at each moment is the ledger's (`apps.quotas.ledger`), applied to what was held and promised then.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from apps.quotas import ledger
from apps.quotas.specs import OfferQuota


@dataclass(frozen=True)
class Held:
    """One device that a tenant held in [begins, ends)."""

    tenant: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Promise:
    """What a tenant is guaranteed from a moment on, until its next one."""

    tenant: str
    at: datetime
    count: int


@dataclass(frozen=True)
class Step:
    """What one tenant had in a step, in devices: each is device-seconds over the step's length, so of an hour
    half of which one device was lent it says 0.5. `own` is what ran within the guarantee.
    """

    at: datetime
    guaranteed: float
    own: float
    borrowed: float
    lent: float

    @property
    def idle(self) -> float:
        """Guaranteed devices on which nobody ran."""
        return max(0.0, self.guaranteed - self.own - self.lent)


Sums = tuple[float, float, float, float]


def steps(
    tenant: str, held: Sequence[Held], promised: Sequence[Promise], *, edges: Sequence[datetime]
) -> list[Step]:
    """One step between each two edges, in order. `held` and `promised` are of the whole department.

    RULE: exact between any two changes; a device is counted from its first to before its last moment.
    """
    moments = sorted({*edges, *_inside(_changes(held, promised), edges)})
    found: dict[datetime, Sums] = {}
    place = 0
    for at, (begins, ends) in _states(tenant, held, promised, moments):
        while edges[place + 1] <= begins:
            place += 1
        seconds = (ends - begins).total_seconds()
        before = found.get(edges[place], (0.0, 0.0, 0.0, 0.0))
        found[edges[place]] = _added(before, at, seconds)
    return [_step(edges[i], found.get(edges[i]), edges[i + 1] - edges[i]) for i in range(len(edges) - 1)]


def _changes(held: Sequence[Held], promised: Sequence[Promise]) -> Iterator[datetime]:
    for each in held:
        yield from (each.begins, each.ends)
    yield from (each.at for each in promised)


def _inside(moments: Iterator[datetime], edges: Sequence[datetime]) -> Iterator[datetime]:
    return (moment for moment in moments if edges[0] < moment < edges[-1])


def _states(
    tenant: str, held: Sequence[Held], promised: Sequence[Promise], moments: Sequence[datetime]
) -> Iterator[tuple[tuple[int, int, int, int], tuple[datetime, datetime]]]:
    """(guaranteed, own, borrowed, lent) of the tenant between each two moments."""
    turns = sorted(
        [(each.begins, 0, each.tenant, 1) for each in held]
        + [(each.ends, 0, each.tenant, -1) for each in held]
        + [(each.at, 1, each.tenant, each.count) for each in promised]
    )
    used, guaranteed, place = Counter[str](), Counter[str](), 0
    for begins, ends in pairwise(moments):
        while place < len(turns) and turns[place][0] <= begins:
            _, is_promise, name, count = turns[place]
            if is_promise:
                guaranteed[name] = count
            else:
                used[name] += count
            place += 1
        yield _state(tenant, used, guaranteed), (begins, ends)


def _state(tenant: str, used: Mapping[str, int], guaranteed: Mapping[str, int]) -> tuple[int, int, int, int]:
    own = _use(tenant, used, guaranteed)
    others = [_use(name, used, guaranteed) for name in sorted({*used, *guaranteed} - {tenant})]
    nominal = own.quota.nominal
    beyond = max(0, own.used - nominal)
    return nominal, own.used - beyond, beyond, ledger.lent(own, others)


def _use(name: str, used: Mapping[str, int], guaranteed: Mapping[str, int]) -> ledger.Use:
    quota = OfferQuota("", "", "", guaranteed.get(name, 0), None, None)
    return ledger.Use(quota, used.get(name, 0))


def _added(before: Sums, at: tuple[int, int, int, int], seconds: float) -> Sums:
    a, b, c, d = (old + value * seconds for old, value in zip(before, at, strict=True))
    return a, b, c, d


def _step(at: datetime, sums: Sums | None, length: timedelta) -> Step:
    guaranteed, own, borrowed, lent = (each / length.total_seconds() for each in sums or (0.0,) * 4)
    return Step(at, guaranteed, own, borrowed, lent)
