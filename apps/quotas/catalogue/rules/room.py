"""How many devices of an offer could be given out now, and why not more. Pure geometry.

MIG instances that a driver offers at overlapping places exclude each other (their memory slices say so); pods
need all their devices on one node. Quota is not its business: `apps.quotas.allowances.rules.fit`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

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
    taken = _taken(everything, held)
    open_ones = [d for d in own if d.key not in held and taken.isdisjoint(_slots(d))]
    usable = _per_node(d for d in open_ones if d.node in working and not d.tainted)
    broken = _per_node(d for d in open_ones if d.node not in working or d.tainted)
    total = _per_node(own)
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


Slot = tuple[str, str, int]
"""Node, GPU and memory slice."""


def _slots(device: DeviceView) -> list[Slot]:
    return [(device.node, device.parent_uuid, number) for number in device.memory_slices]


def _taken(devices: Iterable[DeviceView], held: Collection[DeviceKey]) -> set[Slot]:
    return {slot for device in devices if device.key in held for slot in _slots(device)}


def _left_over(devices: Iterable[DeviceView], taken: set[Slot], working: Collection[str]) -> int:
    return len({slot for d in devices if d.node in working for slot in _slots(d)} - taken)


def _per_node(devices: Iterable[DeviceView]) -> Counter[str]:
    """The most devices that could be given out together on each node: intervals that do not overlap.

    Taking whatever ends first is optimal for intervals.
    """
    found: Counter[str] = Counter()
    filled: set[Slot] = set()
    for device in sorted(devices, key=lambda d: (d.node, d.parent_uuid, max(d.memory_slices, default=0))):
        slots = _slots(device)
        if filled.isdisjoint(slots):
            filled.update(slots)
            found[device.node] += 1
    return found
