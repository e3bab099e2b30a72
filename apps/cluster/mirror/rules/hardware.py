"""What hardware a cluster has, read from its Nodes, ResourceSlices and ResourceClaims. Pure.

Sources: kubernetes/api v0.36 resource/v1 (only the newest generation of a pool counts, once all of its slices
are there), the attributes of NVIDIA's DRA driver v0.4, and NVIDIA's MIG guide for compute slices. A device
without an attribute is normal; nothing here assumes one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from apps.cluster.objects.quantities import cpu_millis, memory_bytes

_COMPUTE_OF = (
    (re.compile(r"\bA30\b"), 4),
    (re.compile(r"\bRTX PRO 6000\b"), 4),
    (re.compile(r"\bRTX PRO (?:5000|4500)\b"), 2),
    (re.compile(r"\bThor\b"), 2),
)
"""Compute slices of a whole GPU by words of its product name, as NVIDIA's MIG guide says ("Supported GPUs",
the most instances); every other model that it lists has 7.
"""
COMPUTE_SLICES = 7
_PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g\.\d+gb")
_MEMORY_SLICE = re.compile(r"(?:memorySlice|memory-slice-)(\d{1,2})")
_VALUES = ("string", "int", "bool", "version")
_MEMORY_UNITS = (2**20, 10**6)
"""In which a device's memory is counted: the first that its capacity is a whole number of."""

GPU_DRIVER = "gpu.nvidia.com"
"""Of the DRA drivers the one whose devices are GPUs."""
Pool = tuple[str, str]
"""Driver and name."""
DeviceKey = tuple[str, str, str]
"""Driver, pool and name: what a claim's allocation names a device by."""


@dataclass(frozen=True)
class Taint:
    """What a driver says of a device.

    RULE: NoSchedule and NoExecute close it; `None` is information, and "consumers must treat unknown effects
    like None" (resource.k8s.io/v1 DeviceTaint).
    """

    key: str
    value: str
    effect: str

    @property
    def closes(self) -> bool:
        """Whether no new work gets the device."""
        return self.effect in ("NoSchedule", "NoExecute")

    def __str__(self) -> str:
        name = f"{self.key}={self.value}" if self.value else self.key
        return f"{name} ({self.effect if self.closes else 'for information'})"


@dataclass(frozen=True)
class Consumed:
    """What a device takes of a counter of its pool, such as a board's memory, and how much there is of it."""

    counter: tuple[str, str, str, str]
    """Driver, pool, counter set and name."""
    amount: int
    of: int


@dataclass(frozen=True)
class DeviceView:
    """One device that a driver offers. `type` is gpu, mig or what the driver says; empty texts are unknown.

    `share_numerator / share_denominator` is its part of the physical GPU's compute (1g: 1/7).
    """

    driver: str
    node: str
    pool: str
    name: str
    type: str
    model: str
    profile: str
    uuid: str
    parent_uuid: str
    memory_bytes: int
    share_numerator: int
    share_denominator: int
    driver_version: str = ""
    cuda_version: str = ""
    """The newest CUDA that its driver serves."""
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    memory_slices: tuple[int, ...] = ()
    """Which memory slices of its GPU it occupies; empty when its driver does not say."""
    consumes: tuple[Consumed, ...] = ()
    """Of a board that is cut on demand: all that could be cut is offered, and counters say what fits."""
    is_in_shares: bool = False
    """Whether several claims may have it at once (`allowMultipleAllocations`)."""

    @property
    def key(self) -> DeviceKey:
        """How a claim names it."""
        return (self.driver, self.pool, self.name)

    @property
    def tainted(self) -> bool:
        """Whether a taint closes it to new work."""
        return any(taint.closes for taint in self.taints)


@dataclass(frozen=True)
class NodeView:
    """One node. `memory_bytes` and `cpu_millis` are what pods may use of it; `schedulable`: ready and not
    cordoned.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    cpu_millis: int
    memory_bytes: int
    ready: bool
    schedulable: bool
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Holder:
    """The claim that has a device allocated, and for whom."""

    namespace: str
    claim: str
    claim_uid: str
    pods: tuple[str, ...] = ()
    memory_bytes: int | None = None
    """What it has of a device in shares; None: all of it."""


def nodes(bodies: Iterable[Mapping[str, Any]]) -> list[NodeView]:
    """Every node, by name."""
    return sorted((_node(body) for body in bodies), key=lambda node: node.name)


def devices(slices: Iterable[Mapping[str, Any]], nodes: Iterable[NodeView] = ()) -> list[DeviceView]:
    """Every device of the newest generation of each pool, once, by node and name; `nodes` give them their
    labels. Of a pool of which slices are missing, what older ones say stands beside that.
    """
    taken = list(slices)
    newest, missing = _newest(taken), partial_pools(taken)
    labels = {node.name: node.labels for node in nodes}
    counters = _counters(body for body in taken if _generation(body) == newest[_pool(body)])
    views: dict[DeviceKey, DeviceView] = {}
    for body in sorted(taken, key=_generation, reverse=True):
        if _generation(body) == newest[_pool(body)] or _pool(body) in missing:
            for device in body["spec"].get("devices") or []:
                view = _device(body["spec"], device, labels, counters)
                views.setdefault(view.key, view)
    return sorted(views.values(), key=lambda view: (view.node, view.name))


def _counters(slices: Iterable[Mapping[str, Any]]) -> Mapping[tuple[str, str, str, str], int]:
    return {
        (*_pool(body), group["name"], name): memory_bytes(counter["value"])
        for body in slices
        for group in body["spec"].get("sharedCounters") or ()
        for name, counter in (group.get("counters") or {}).items()
    }


def partial_pools(slices: Iterable[Mapping[str, Any]]) -> frozenset[Pool]:
    """Pools whose newest generation says that it has more slices than are there: a driver is about to publish
    them, so that what is missing is no news.
    """
    taken = list(slices)
    newest = _newest(taken)
    current = [body for body in taken if _generation(body) == newest[_pool(body)]]
    there = Counter(map(_pool, current))
    return frozenset(
        _pool(body)
        for body in current
        if there[_pool(body)] < body["spec"]["pool"].get("resourceSliceCount", 1)
    )


def _newest(slices: Iterable[Mapping[str, Any]]) -> Mapping[Pool, int]:
    newest: dict[Pool, int] = {}
    for body in slices:
        newest[_pool(body)] = max(newest.get(_pool(body), 0), _generation(body))
    return newest


@dataclass(frozen=True)
class GpuView:
    """One physical GPU, whole or cut. `memory_bytes` is None where only its slices are published."""

    id: str
    node: str
    model: str
    memory_bytes: int | None
    devices: tuple[DeviceView, ...]

    @property
    def slices(self) -> tuple[DeviceView, ...]:
        """Its MIG slices; none for a whole GPU."""
        return tuple(device for device in self.devices if device.type == "mig")


def gpus(devices: Iterable[DeviceView]) -> list[GpuView]:
    """Devices gathered by the physical GPU they are or are part of, by node and id."""
    groups: dict[tuple[str, str], list[DeviceView]] = {}
    for device in devices:
        gpu = device.parent_uuid or device.uuid or f"{device.pool}/{device.name}"
        groups.setdefault((device.node, gpu), []).append(device)
    found = []
    for (node, gpu), parts in sorted(groups.items()):
        itself = next((part for part in parts if not part.parent_uuid), None)
        memory = itself.memory_bytes if itself else None
        found.append(GpuView(gpu, node, parts[0].model, memory, tuple(parts)))
    return found


def slice_start(device: DeviceView) -> int | None:
    """The memory slice at which a MIG device begins: the last number of its name in NVIDIA's driver."""
    last = device.name.rpartition("-")[2]
    return int(last) if device.type == "mig" and last.isdigit() else None


def holders(claims: Iterable[Mapping[str, Any]]) -> dict[DeviceKey, tuple[Holder, ...]]:
    """Which claims hold which device: one, or of a device in shares all that have some of it. A claim with an
    allocation holds it even while no pod uses it yet.
    """
    held: dict[DeviceKey, tuple[Holder, ...]] = {}
    for claim in claims:
        metadata, status = claim["metadata"], claim.get("status") or {}
        pods = tuple(ref["name"] for ref in status.get("reservedFor") or [] if ref.get("resource") == "pods")
        holder = Holder(metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""), pods)
        parts = consumed(results_of(claim))
        for key in dict.fromkeys(allocated(claim)):
            held[key] = (*held.get(key, ()), replace(holder, memory_bytes=parts.get(key)))
    return held


def allocated(claim: Mapping[str, Any]) -> list[DeviceKey]:
    """The devices that a claim has; admin access looks at a device and does not hold it."""
    return [(r["driver"], r["pool"], r["device"]) for r in results_of(claim) if not r.get("adminAccess")]


def results_of(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What its allocation names, device by device."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def consumed(results: Iterable[Mapping[str, Any]]) -> dict[DeviceKey, int]:
    """The memory in bytes that an allocation consumes of every device of which it has shares beside others'
    (`shareID`, consumable capacity); shares of one device add up. 0: it says none.
    """
    found: dict[DeviceKey, int] = {}
    for each in results:
        if each.get("shareID") and not each.get("adminAccess"):
            capacity = {
                name.rpartition("/")[2]: q for name, q in (each.get("consumedCapacity") or {}).items()
            }
            key = (each["driver"], each["pool"], each["device"])
            found[key] = found.get(key, 0) + memory_bytes(capacity.get("memory", 0))
    return found


def part_of(device: DeviceView | None, memory: int) -> Fraction | None:
    """The part of a device that so many bytes of its memory are, at most all of it; None: nothing says so.

    RULE: memory consumed / the capacity that the device publishes, in whole MiB (MB where only these divide
    the capacity), the rest of one left out: no sum of parts exceeds the device, and every denominator divides
    its memory. A MIG slice has no parts: it is a part itself, and the product of both has no bound.
    """
    if device is None or device.share_denominator > 1:
        return None
    unit = next((each for each in _MEMORY_UNITS if device.memory_bytes % each == 0), _MEMORY_UNITS[0])
    mine, whole = memory // unit, device.memory_bytes // unit
    return Fraction(min(mine, whole), whole) if mine and whole else None


def compute_share(model: str, profile: str) -> tuple[int, int]:
    """The part of the physical GPU's compute that a MIG profile has: `1g.10gb` is 1 of 7; no profile is 1 of
    1.

    With a compute instance inside (`1c.3g.40gb`) the instance counts. A profile we cannot read is the whole
    GPU: billing too much is noticed, billing nothing is not.
    """
    match = _PROFILE.match(profile)
    if match is None:
        return (1, 1)
    whole = next((count for name, count in _COMPUTE_OF if name.search(model)), COMPUTE_SLICES)
    return (int(match.group(1) or match.group(2)), whole)


def _device(
    spec: Mapping[str, Any],
    device: Mapping[str, Any],
    labels: Mapping[str, Any],
    counters: Mapping[tuple[str, str, str, str], int],
) -> DeviceView:
    attributes = {name.rpartition("/")[2]: _value(a) for name, a in (device.get("attributes") or {}).items()}
    capacity = {name.rpartition("/")[2]: c for name, c in (device.get("capacity") or {}).items()}
    model, profile = attributes.get("productName", ""), attributes.get("profile", "")
    numerator, denominator = compute_share(model, profile)
    node = device.get("nodeName") or spec.get("nodeName", "")
    return DeviceView(
        driver=spec["driver"], node=node, pool=spec["pool"]["name"], name=device["name"],
        type=attributes.get("type", ""), model=model, profile=profile, uuid=attributes.get("uuid", ""),
        parent_uuid=attributes.get("parentUUID", ""),
        memory_bytes=_bytes(capacity.get("memory")), share_numerator=numerator, share_denominator=denominator,
        driver_version=attributes.get("driverVersion", ""),
        cuda_version=attributes.get("cudaDriverVersion", ""),
        taints=tuple(map(_taint, device.get("taints") or ())), labels=labels.get(node, {}),
        memory_slices=_memory_slices(device, capacity), consumes=tuple(_consumed(spec, device, counters)),
        is_in_shares=bool(device.get("allowMultipleAllocations")),
    )  # fmt: skip


def _memory_slices(device: Mapping[str, Any], capacity: Iterable[str]) -> tuple[int, ...]:
    """From its capacity, or where its board is cut on demand from the counters that it takes."""
    names = [*capacity, *(name for each in device.get("consumesCounters") or () for name in each["counters"])]
    numbers = (_MEMORY_SLICE.fullmatch(name) for name in names)
    return tuple(sorted({int(number[1]) for number in numbers if number}))


def _consumed(
    spec: Mapping[str, Any], device: Mapping[str, Any], counters: Mapping[tuple[str, str, str, str], int]
) -> Iterator[Consumed]:
    """RULE: a counter that its pool does not publish has nothing to give: the scheduler refuses it."""
    for each in device.get("consumesCounters") or ():
        for name, counter in each["counters"].items():
            key = (spec["driver"], spec["pool"]["name"], each["counterSet"], name)
            yield Consumed(key, memory_bytes(counter["value"]), counters.get(key, 0))


def _taint(body: Mapping[str, Any]) -> Taint:
    return Taint(body["key"], body.get("value", ""), body.get("effect", ""))


def _node(body: Mapping[str, Any]) -> NodeView:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    room = status.get("allocatable") or status.get("capacity") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
    return NodeView(
        name=body["metadata"]["name"], labels=body["metadata"].get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        cpu_millis=cpu_millis(room.get("cpu", 0)), memory_bytes=memory_bytes(room.get("memory", 0)),
        ready=ready, schedulable=ready and not spec.get("unschedulable", False), resources=room,
    )  # fmt: skip


def _value(attribute: Mapping[str, Any]) -> str:
    return next((str(attribute[kind]) for kind in _VALUES if kind in attribute), "")


def _bytes(capacity: Mapping[str, Any] | None) -> int:
    return memory_bytes(capacity["value"]) if capacity else 0


def _pool(body: Mapping[str, Any]) -> Pool:
    return (body["spec"]["driver"], body["spec"]["pool"]["name"])


def _generation(body: Mapping[str, Any]) -> int:
    return int(body["spec"]["pool"].get("generation", 0))
