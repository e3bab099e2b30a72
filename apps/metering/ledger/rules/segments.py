"""Whose a GPU's time was: facts of hardware and holdings in, segments with whole shares out. Pure.

RULE: in every segment the shares sum to what the GPU has, exactly: tenants + idle + unattributed = the
device.
Times are integers, microseconds since 1970; intervals are half-open.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from apps.metering.specs import Account, IdleReason
from apps.words import Word


class ChangeKind(Word):
    """What may become so of a GPU.

    present{node, model, denominator, size, pool}, of a pool of slices shares, which need not be whole GPUs,
    and part, the shares of one device, instead of size; layout{instances: {device: numerator}};
    claims{claims: {uid: {devices, tenant, reserved, uuids, parts}}}: the claims of no workload of ours, with
    the UUIDs of those of a tenant's devices that have one, and the parts of those of which others may hold a
    part too (device: "1/4"; "" is what the others leave); unhealthy{xid, is_ours}: where the GPU is dead of
    it, and False where the platform does not answer for it. The others carry nothing.
    """

    PRESENT = "present", "Present"
    GONE = "gone", "Gone"
    LAYOUT = "layout", "Layout"
    CORDONED = "cordoned", "Cordoned"
    UNCORDONED = "uncordoned", "Uncordoned"
    UNHEALTHY = "unhealthy", "Unhealthy"
    HEALTHY = "healthy", "Healthy"
    RESERVED = "reserved", "Reserved"
    UNRESERVED = "unreserved", "Unreserved"
    CLAIMS = "claims", "Claims of others"


GROUPS: Mapping[str, str] = {
    ChangeKind.GONE: ChangeKind.PRESENT,
    ChangeKind.UNCORDONED: ChangeKind.CORDONED,
    ChangeKind.HEALTHY: ChangeKind.UNHEALTHY,
    ChangeKind.UNRESERVED: ChangeKind.RESERVED,
}
"""What undoes what: of each such pair, and of every other kind, the latest change holds."""

_REASONS = (
    (ChangeKind.UNHEALTHY, IdleReason.UNHEALTHY),
    (ChangeKind.CORDONED, IdleReason.CORDONED),
    (ChangeKind.RESERVED, IdleReason.RESERVED),
)


class BreachKind(Word):
    """Why facts cannot all be true."""

    OVER_ALLOCATED = "over-allocated", "Two hold the same"
    ABSENT = "absent", "The device is not there"


@dataclass(frozen=True)
class Change:
    """One fact. Of two of the same moment the one with the higher `sequence` was recorded later."""

    kind: str
    at: int
    value: Mapping[str, Any] = field(default_factory=dict)
    sequence: int = 0


@dataclass(frozen=True)
class Holding:
    """Somebody held `device` (pool/device; node/resource#i behind a device plugin) in [begins, ends), or a
    part of it; a part of None is what all others leave of it.
    """

    id: str
    device: str
    begins: int
    ends: int | None
    account: str = Account.TENANT
    tenant: str = ""
    reserved: bool = False
    part: Fraction | None = Fraction(1)


@dataclass(frozen=True)
class Share:
    """A whole number of shares of one account; `numerator` 0 is a holder that found nothing left.

    `alone`: nobody else held the same device, so that its telemetry speaks of this holder.
    """

    account: str
    reason: str
    holder: str
    numerator: int
    tenant: str = ""
    alone: bool = False


@dataclass(frozen=True)
class Segment:
    """A time in which nothing changed. RULE: the numerators sum to denominator x size. The denominator is the
    GPU's own, as often finer as the parts of devices that are held ask for.

    `size` is the physical GPUs behind it: 0 while it is not there, other than 1 only behind a device plugin.
    """

    begins: int
    ends: int
    denominator: int
    size: Fraction
    node: str
    model: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Breach:
    """A holder that got less than its claim says, in [begins, ends), in shares of the GPU."""

    kind: str
    holder: str
    device: str
    begins: int
    ends: int
    wanted: int
    got: int


@dataclass(frozen=True)
class Balance:
    """A window's segments, without gaps, and where the facts contradict each other."""

    segments: tuple[Segment, ...]
    breaches: tuple[Breach, ...]


class State:
    """What a GPU is at a moment: the latest change of each group."""

    def __init__(self) -> None:
        self._latest: dict[str, Change] = {}

    def apply(self, change: Change) -> None:
        """RULE: changes are applied in the order of (at, sequence)."""
        self._latest[GROUPS.get(change.kind, change.kind)] = change

    def is_so(self, kind: str) -> bool:
        """Whether the latest word of the group is this one."""
        latest = self._latest.get(GROUPS.get(kind, kind))
        return latest is not None and latest.kind == kind

    def value(self, kind: str) -> Mapping[str, Any] | None:
        """What the latest change of a group carried; None when there was none."""
        latest = self._latest.get(kind)
        return latest.value if latest else None

    @property
    def present(self) -> bool:
        """Whether the GPU is there."""
        return self.is_so(ChangeKind.PRESENT)

    @property
    def since(self) -> int:
        """When it last came, went or was cut anew; 0 when nothing is known of it."""
        kinds = (ChangeKind.PRESENT, ChangeKind.LAYOUT)
        return max((self._latest[kind].at for kind in kinds if kind in self._latest), default=0)

    @property
    def xid(self) -> int:
        """The XID that it is dead of; 0: none is known."""
        return int((self.value(ChangeKind.UNHEALTHY) or {}).get("xid", 0))

    def changed_at(self, kind: str) -> int:
        """When the latest change of a group was; 0 when there was none."""
        latest = self._latest.get(GROUPS.get(kind, kind))
        return latest.at if latest else 0

    @property
    def is_pool(self) -> bool:
        """Whether a device plugin hands out its shares without saying which."""
        return bool((self.value(ChangeKind.PRESENT) or {}).get("pool"))

    @property
    def size(self) -> Fraction:
        """Physical GPUs behind it; of slices that a device plugin hands out a part of one too."""
        about = self.value(ChangeKind.PRESENT) or {}
        shares = about.get("shares", self.denominator * about.get("size", 1))
        return Fraction(shares, self.denominator) if self.present else Fraction(0)

    @property
    def total(self) -> int:
        """Shares of all of it."""
        return int(self.denominator * self.size)

    @property
    def part(self) -> int:
        """Shares of one device of a pool."""
        return int((self.value(ChangeKind.PRESENT) or {}).get("part", 1))

    @property
    def denominator(self) -> int:
        """Shares that a physical GPU is divided into."""
        return max(1, int((self.value(ChangeKind.PRESENT) or {}).get("denominator", 1)))

    @property
    def instances(self) -> dict[str, int] | None:
        """Shares by device; None where devices are not told apart, or no layout is known."""
        if self.is_pool:
            return None
        layout = self.value(ChangeKind.LAYOUT)
        return None if layout is None else {name: int(n) for name, n in layout["instances"].items()}

    @property
    def claims(self) -> list[Holding]:
        """Holdings of the claims of no workload of ours."""
        latest = self._latest.get(ChangeKind.CLAIMS)
        if latest is None:
            return []
        return [
            _foreign(uid, claim, device, latest.at)
            for uid, claim in sorted(latest.value["claims"].items())
            for device in claim["devices"]
        ]


def holder_of(uid: str, device: str) -> str:
    """What a tenant's claim that is no workload's is called as the holder of one device of known UUID.

    Its own uid stands for all of it whose use cannot be told: what facts of before told no UUID of, and what
    a device plugin hands out.
    """
    return str(uuid5(NAMESPACE_OID, f"{uid} {device}"))


def _foreign(uid: str, claim: Mapping[str, Any], device: str, at: int) -> Holding:
    tenant = str(claim.get("tenant", ""))
    account = Account.TENANT if tenant else Account.UNATTRIBUTED
    name = holder_of(uid, device) if device in claim.get("uuids", ()) else uid
    part = claim.get("parts", {}).get(device, "1")
    reserved = bool(claim.get("reserved"))
    return Holding(name, device, at, None, account, tenant, reserved, Fraction(part) if part else None)


def balance(changes: Iterable[Change], holdings: Iterable[Holding], begins: int, ends: int) -> Balance:
    """Segments over [begins, ends) of one GPU.

    `changes` are all since the beginning (or the latest of each group before `begins`), in any order, and so
    are `holdings`. The answer depends on neither order.
    """
    ordered = sorted(changes, key=lambda change: (change.at, change.sequence))
    held = sorted(holdings, key=lambda each: (each.begins, each.id, each.device))
    state, position = State(), 0
    segments: list[Segment] = []
    breaches: list[Breach] = []
    for first, last in _cuts(ordered, held, begins, ends):
        while position < len(ordered) and ordered[position].at <= first:
            state.apply(ordered[position])
            position += 1
        active = [each for each in held if each.begins <= first and (each.ends is None or each.ends > first)]
        active += state.claims
        # The shares of all of it in which every part is a whole number.
        fine = lcm(*(each.part.denominator for each in active if each.part))
        shares, found = _shares(active, state, fine)
        segments.append(_segment(state, fine, shares, (first, last)))
        breaches.extend(Breach(*each[:3], first, last, *each[3:]) for each in found)
    return Balance(tuple(segments), tuple(_joined(breaches)))


def current(changes: Iterable[Change]) -> State:
    """What a GPU is after all of these."""
    state = State()
    for change in sorted(changes, key=lambda each: (each.at, each.sequence)):
        state.apply(change)
    return state


def _cuts(
    changes: Sequence[Change], holdings: Sequence[Holding], begins: int, ends: int
) -> Iterator[tuple[int, int]]:
    moments = {change.at for change in changes} | {each.begins for each in holdings}
    moments |= {each.ends for each in holdings if each.ends is not None}
    inner = sorted(at for at in moments if begins < at < ends)
    return zip([begins, *inner], [*inner, ends], strict=True)


def _segment(state: State, fine: int, shares: tuple[Share, ...], when: tuple[int, int]) -> Segment:
    about = state.value(ChangeKind.PRESENT) or {}
    return Segment(
        *when, state.denominator * fine, state.size,
        str(about.get("node", "")), str(about.get("model", "")), shares,
    )  # fmt: skip


_Found = tuple[str, str, str, int, int]


def _shares(active: Sequence[Holding], state: State, fine: int) -> tuple[tuple[Share, ...], list[_Found]]:
    """RULE: who came first has it; a later holder of the same gets what is left, which may be nothing. Whose
    part is what others leave comes last. Everything is counted `fine` times as finely as the GPU is.
    """
    instances, left = state.instances, state.total * fine
    taken: dict[str, int] = {}
    claimed = Counter(each.device for each in active)
    shares: list[Share] = []
    breaches: list[_Found] = []
    for each in sorted(active, key=lambda holding: holding.part is None):
        whole = _wanted(each.device, instances, state) * fine
        mine = whole if state.is_pool else whole - taken.get(each.device, 0)
        wanted = mine if each.part is None else int(whole * each.part)
        got = min(mine, wanted, left)
        if whole == 0 or got < wanted:
            kind = BreachKind.OVER_ALLOCATED if whole else BreachKind.ABSENT
            breaches.append((kind, each.id, each.device, wanted, got))
        taken[each.device] = taken.get(each.device, 0) + got
        left -= got
        if got or each.part is not None:
            alone = claimed[each.device] == 1 and each.part == 1 and not state.is_pool
            shares.append(_share(each, got, alone=alone))
    return _merged([*shares, *_idle(state, fine, left)]), breaches


def _wanted(device: str, instances: Mapping[str, int] | None, state: State) -> int:
    """The shares of a device; 0 when it is not there. Behind a plugin all devices have as many; where no
    layout is known, a device is the whole GPU.
    """
    if not state.present:
        return 0
    if instances is not None:
        return instances.get(device, 0)
    return state.part if state.is_pool else state.total


def _share(each: Holding, got: int, *, alone: bool) -> Share:
    if each.reserved:
        return Share(Account.IDLE, IdleReason.RESERVED, "", got)
    holder = "" if each.account == Account.UNATTRIBUTED else each.id
    return Share(each.account, "", holder, got, each.tenant, alone)


def _idle(state: State, fine: int, left: int) -> list[Share]:
    """What nobody has. RULE: what no instance covers is stranded; the rest is unhealthy, cordoned, reserved
    or free, the first that holds. Instances that overlap are what could be cut: then nothing is stranded.
    """
    total, instances = state.total, state.instances
    covered = total if instances is None else sum(instances.values())
    stranded = min(left, max(0, total - covered) * fine)
    reason = next((reason for kind, reason in _REASONS if state.is_so(kind)), IdleReason.FREE)
    parts = ((IdleReason.STRANDED, stranded), (reason, left - stranded))
    return [Share(Account.IDLE, reason, "", number) for reason, number in parts if number]


def _merged(shares: Iterable[Share]) -> tuple[Share, ...]:
    """One share per account, reason and holder."""
    found: dict[tuple[str, str, str], Share] = {}
    for each in shares:
        key = (each.account, each.reason, each.holder)
        if (other := found.get(key)) is not None:
            total, alone = each.numerator + other.numerator, each.alone and other.alone
            each = Share(*key, total, each.tenant, alone)  # noqa: PLW2901 - the sum takes the part's place
        found[key] = each
    return tuple(found[key] for key in sorted(found))


def _joined(breaches: Iterable[Breach]) -> list[Breach]:
    """Breaches that go on over a cut are one."""
    found: list[Breach] = []
    for each in sorted(breaches, key=lambda breach: (*_about(breach), breach.begins)):
        if found and _about(found[-1]) == _about(each) and found[-1].ends == each.begins:
            found[-1] = replace(found[-1], ends=each.ends)
        else:
            found.append(each)
    return found


def _about(breach: Breach) -> tuple[str, str, str, int, int]:
    return breach.holder, breach.device, breach.kind, breach.wanted, breach.got
