"""How many devices of an offer could be given out now, and why not more. Pure geometry.

MIG instances that a driver offers at overlapping places exclude each other, and the whole GPU that they could
be cut of (memory slices and shared counters say so); pods need all their devices on one node. Quota is for
others: `apps.quotas.allowances.rules.fit`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from apps.cluster.mirror.rules.hardware import DeviceKey, DeviceView
from apps.quotas.catalogue.rules.cores import CoreNode


@dataclass(frozen=True)
class Room:
    """Devices of one offer. `most` is the largest number free on one node, `largest` what one
    node has at all.

    `down` are free devices on nodes that are out of service, `nodes_down` those nodes. `elsewhere` counts
    free memory slices on GPUs of the model where no instance of the profile finds its place.
    """

    capacity: int
    free: int
    most: int
    largest: int
    down: int = 0
    nodes_down: tuple[str, ...] = ()
    elsewhere: int = 0
    places: tuple[int, ...] = field(default=(), compare=False)
    """What is free on each node that has something free, most first."""


def one_node(free: int, most: int | None) -> str:
    """`at most 4 on one node`; empty where all that is free could be one pod's, or nobody knows."""
    return f"at most {most} on one node" if most is not None and most < free else ""


def fits(places: Sequence[int], each: int, pods: int) -> bool:
    """Whether so many pods find their devices, those of each on one node; `places` is what each has free."""
    return each > 0 and sum(free // each for free in places) >= pods


def placeable_devices(
    own: Sequence[DeviceView],
    model: Iterable[DeviceView],
    *,
    held: Collection[DeviceKey],
    working: Collection[str],
) -> Room:
    """`own` are the offer's devices, `model` all of that GPU model, `held` what claims have, `working` the
    nodes that are ready and not cordoned. A tainted device counts as out of service.
    """
    everything = list(model)
    in_use = [device for device in everything if device.key in held]
    taken, left = _slices(in_use), _left_of_counters(in_use)
    # Intervals that do not overlap: taking whatever ends first is optimal.
    ordered = sorted(own, key=lambda d: (*_gpu(d), _mask(d.memory_slices).bit_length()))
    open_ones = [
        d for d in ordered if d.key not in held and not taken.get(_gpu(d), 0) & _mask(d.memory_slices)
    ]
    usable = _per_node((d for d in open_ones if d.node in working and not d.tainted), left)
    broken = _per_node((d for d in open_ones if d.node not in working or d.tainted), left)
    total = _per_node(ordered, {})
    return Room(
        capacity=sum(total.values()),
        free=sum(usable.values()),
        most=max(usable.values(), default=0),
        largest=max(total.values(), default=0),
        down=sum(broken.values()),
        nodes_down=tuple(sorted(broken)),
        elsewhere=_left_over(everything, taken, working) if own and own[0].memory_slices else 0,
        places=tuple(sorted(usable.values(), reverse=True)),
    )


def placeable_cores(nodes: Sequence[CoreNode]) -> Room:
    """The same of cores: those of a pod are on one node."""
    usable = [node.free for node in nodes if node.schedulable]
    broken = [node for node in nodes if node.free and not node.schedulable]
    return Room(
        capacity=sum(node.cores for node in nodes),
        free=sum(usable),
        most=max(usable, default=0),
        largest=max((node.cores for node in nodes), default=0),
        down=sum(node.free for node in broken),
        nodes_down=tuple(sorted(node.name for node in broken)),
        places=tuple(sorted(filter(None, usable), reverse=True)),
    )


Gpu = tuple[str, str]
"""Its node and its UUID."""
Left = Mapping[tuple[str, str, str, str], int]
"""What is left of the counters of which something was taken."""


def _gpu(device: DeviceView) -> Gpu:
    return device.node, device.parent_uuid or device.uuid


@cache
def _mask(slices: tuple[int, ...]) -> int:
    """Memory slices as bits: thousands of devices are compared at each look."""
    return sum(1 << number for number in slices)


def _slices(devices: Iterable[DeviceView]) -> dict[Gpu, int]:
    """The memory slices that they occupy together, by GPU."""
    found: dict[Gpu, int] = {}
    for device in devices:
        gpu = _gpu(device)
        found[gpu] = found.get(gpu, 0) | _mask(device.memory_slices)
    return found


def _left_over(devices: Iterable[DeviceView], taken: Mapping[Gpu, int], working: Collection[str]) -> int:
    there = _slices(device for device in devices if device.node in working)
    return sum((slices & ~taken.get(gpu, 0)).bit_count() for gpu, slices in there.items())


def _per_node(ordered: Iterable[DeviceView], left: Left) -> Counter[str]:
    """The most devices that could be given out together on each node, of those in the order of their ends,
    with what is left of the counters.
    """
    most: Counter[str] = Counter()
    filled: dict[Gpu, int] = {}
    remaining = dict(left)
    for device in ordered:
        gpu, slices = _gpu(device), _mask(device.memory_slices)
        before = filled.get(gpu, 0)
        if not before & slices and _suffices(remaining, device):
            filled[gpu] = before | slices
            _take(remaining, device)
            most[device.node] += 1
    return most


def _left_of_counters(held: Iterable[DeviceView]) -> Left:
    left: dict[tuple[str, str, str, str], int] = {}
    for device in held:
        _take(left, device)
    return left


def _suffices(left: Left, device: DeviceView) -> bool:
    return all(left.get(each.counter, each.of) >= each.amount for each in device.consumes)


def _take(left: dict[tuple[str, str, str, str], int], device: DeviceView) -> None:
    for each in device.consumes:
        left[each.counter] = left.get(each.counter, each.of) - each.amount
