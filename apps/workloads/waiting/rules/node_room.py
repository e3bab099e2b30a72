"""What keeps a workload that Kueue let in from every node, and what frees one: facts and words. Pure.

Where the devices lie: `apps.quotas.catalogue.rules.room`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from apps.cluster.mirror.rules.hardware import DeviceKey, DeviceView
from apps.quotas.catalogue.rules.room import Room, placeable_devices
from apps.web.shapes.durations import clock

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class NodeHolder:
    """Work that has devices on a node. `name` None: the reader does not see it, and is told counts alone."""

    name: str | None
    count: int
    until: datetime | None = None
    idle_since: datetime | None = None


@dataclass(frozen=True)
class Nearest:
    """The node that has room first: `lacking` devices must come free on it, which these have. `node` "": the
    reader is not told.
    """

    node: str
    lacking: int
    holders: tuple[NodeHolder, ...]


@dataclass(frozen=True)
class Unplaced:
    """Kueue let it in, and the scheduler finds no node: since when, how many of its pods have one, and what
    frees the next.
    """

    since: datetime
    placed: int = 0
    nearest: Nearest | None = None


@dataclass(frozen=True)
class Fleet:
    """Where an offer's devices are: `own` are the offer's, `model` all of that GPU model, `held` who have
    which (several one that is in shares), `working` the nodes that take pods.
    """

    own: Sequence[DeviceView]
    model: Sequence[DeviceView]
    held: Mapping[DeviceKey, Collection[str]]
    working: frozenset[str]


def nearest(fleet: Fleet, needed: int, ends: Mapping[str, datetime | None]) -> Nearest | None:
    """The node on which `needed` devices are free first if what runs ends when `ends` says; None: no node.

    RULE: the earliest known end counts; then the node that needs the fewest to end. What need not end is not
    named. Holders are named by their ids.
    """
    found = filter(None, (_on_node(fleet, node, needed, ends) for node in sorted(fleet.working)))
    return min(found, key=_when, default=None)


def _when(found: Nearest) -> tuple[datetime, int, int]:
    latest = max((holder.until or _NEVER for holder in found.holders), default=_NEVER)
    return latest, len(found.holders), found.lacking


def _on_node(fleet: Fleet, node: str, needed: int, ends: Mapping[str, datetime | None]) -> Nearest | None:
    own = [device for device in fleet.own if device.node == node]
    model = [device for device in fleet.model if device.node == node]
    held = {device.key: fleet.held[device.key] for device in model if device.key in fleet.held}
    counts = Counter(holder for each in held.values() for holder in each)

    def free_without(gone: Iterable[str]) -> int:
        left = {key for key, each in held.items() if set(each) - set(gone)}
        return placeable_devices(own, model, held=left, working={node}).free

    if len(own) < needed or free_without(counts) < needed:
        return None
    end: list[str] = []
    for holder in sorted(counts, key=lambda each: (ends.get(each) or _NEVER, -counts[each], each)):
        if free_without(end) >= needed:
            break
        end.append(holder)
    for holder in tuple(end):
        others = [each for each in end if each != holder]
        if free_without(others) >= needed:
            end = others
    holders = tuple(NodeHolder(each, counts[each], ends.get(each)) for each in end)
    return Nearest(node, needed - free_without(()), holders)


def keeps(unplaced: Unplaced, room: Room | None, need: tuple[int, int, str]) -> str:
    """What keeps it from a node, in figures. `need`: devices of a pod, pods, offer."""
    each, pods, offer = need
    what = "fits no node"
    if unplaced.placed:
        what = f"only {unplaced.placed} of its {pods} pods fit a node"
    needs = f"needs {each} {offer} on one node" if pods == 1 else f"each pod needs {each} {offer} on one node"
    return f"Admitted, but {what}: {needs}{_free(room, each, pods - unplaced.placed)}"


def _free(room: Room | None, each: int, pods: int) -> str:
    if room is None:
        return "; what each node has free of it is not known."
    if fits_now(room, each, pods):
        return f"; {room.free} are free, so something else keeps it."
    fitting = sum(free // each for free in room.places)
    if not room.free:
        return f"; {slices_apart(room)}" if room.elsewhere else ", and none is free."
    if fitting:
        return f", and there is room for {fitting} of {pods} pods."
    in_all = f" ({room.free} in all)" if room.free > room.most else ""
    return f", and the most that any node has free is {room.most}{in_all}."


def slices_apart(room: Room) -> str:
    """How much of such GPUs is free though no instance of the profile finds its place."""
    return (
        f"{room.elsewhere} memory slices of such GPUs are free, but their MIG layout leaves no place for it."
    )


def fits_now(room: Room | None, each: int, pods: int) -> bool:
    """Whether there is room for so many pods, so that devices are not what keeps it."""
    return room is not None and sum(free // max(1, each) for free in room.places) >= pods


def frees(unplaced: Unplaced, room: Room | None, need: tuple[int, int], now: datetime) -> str:
    """What ends the wait; `need`: devices of a pod, pods."""
    found, (each, pods) = unplaced.nearest, need
    if fits_now(room, each, pods - unplaced.placed):
        return "It is tried again by itself; the cluster says what it lacks."
    words = f"It goes on by itself once {each} are free on one node."
    if each == 1:
        words = "It goes on by itself once one is free."
    if found is None or not found.holders:
        return words
    holders = ", ".join(_held(each, now) for each in found.holders)
    where = found.node or "one node"
    return f"{words} Nearest: {found.lacking} more on {where}, of those held by {holders}."


def _held(holder: NodeHolder, now: datetime) -> str:
    name, facts = holder.name or "work of others", [str(holder.count)]
    if holder.until:
        facts.append(f"ends by {clock(holder.until, now)}")
    if holder.idle_since:
        facts.append(f"idle since {clock(holder.idle_since, now)}")
    if len(facts) == 1:
        facts.append("no end known")
    return f"{name} ({', '.join(facts)})"
