"""Nodes without a GPU, sold by the core: which they are, what one core is, and whether work for them can be
kept off nodes with GPUs. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.cluster.mirror.rules.hardware import DeviceView, NodeView
from apps.cluster.objects import names
from apps.quotas.catalogue.rules import list_prices
from apps.quotas.catalogue.rules.drafts import (
    CAPACITY_LABEL,
    GIB,
    SPOT,
    FlavorDraft,
    Naming,
    OfferDraft,
    tolerations_of,
)
from apps.quotas.specs import CORE_MILLIS, GPU_NODE_LABELS, Mechanism, SharingMode

MIB = 1024**2
_CONTROL_PLANE = "node-role.kubernetes.io/"
_LIFE = "node.kubernetes.io/"
_HARD = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class CoreNode:
    """A node without a GPU: how many cores it has to sell, how many are free, and whether work may start."""

    name: str
    cores: int
    free: int
    schedulable: bool


def plan(devices: Iterable[DeviceView], nodes: Sequence[NodeView]) -> tuple[FlavorDraft, ...]:
    """The one flavor of the nodes that have no GPU and serve everybody, with its cores as an offer.

    RULE: none where work for them could land on a GPU's node: somebody has to label one or the other first.
    Spot nodes and a tenant's own are left out.
    """
    with_gpus, bare = apart(devices, nodes)
    found = [node for node in bare if not is_left_out(node.labels) and not _is_control_plane(node)]
    if not found or any(may_land_on({}, node.labels) for node in with_gpus):
        return ()
    return (_flavor(found),)


def is_left_out(labels: Mapping[str, str]) -> bool:
    """Whether nodes or a flavor with these labels sell no cores, GPU or not: one tenant's, or spot."""
    return names.LABEL_TENANT in labels or labels.get(CAPACITY_LABEL) == SPOT


def sells(node: NodeView, labels: Mapping[str, str], tolerations: Sequence[Mapping[str, str]]) -> bool:
    """Whether work for the flavor with these labels and tolerations may run on a node without a GPU.

    RULE: taints of the node's own life (cordoned, not ready) do not count: it is there, and not free.
    """
    taints = [
        taint
        for taint in node.taints
        if taint.get("effect") in _HARD and not taint.get("key", "").startswith(_LIFE)
    ]
    fits = labels.items() <= node.labels.items() and not is_left_out(node.labels)
    return fits and all(any(_tolerates(each, taint) for each in tolerations) for taint in taints)


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    # core/v1 ToleratesTaint: without a key or an effect it tolerates each; Exists, whatever the value.
    if any(toleration.get(part) not in (None, "", taint.get(part)) for part in ("key", "effect")):
        return False
    is_same = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("operator") == "Exists" or bool(toleration.get("key") and is_same)


def _is_control_plane(node: NodeView) -> bool:
    return any(taint.get("key", "").startswith(_CONTROL_PLANE) for taint in node.taints)


def apart(devices: Iterable[DeviceView], nodes: Iterable[NodeView]) -> tuple[list[NodeView], list[NodeView]]:
    """The nodes that have GPUs, and those that have none."""
    published = {device.node for device in devices}
    found: tuple[list[NodeView], list[NodeView]] = ([], [])
    for node in nodes:
        found[0 if node.name in published or _tells_of_gpus(node) else 1].append(node)
    return found


def _tells_of_gpus(node: NodeView) -> bool:
    is_labelled = any(name in node.labels for name in GPU_NODE_LABELS)
    return is_labelled or any("gpu" in name for name in node.resources)


def may_land_on(labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether work for the cores of nodes with these labels fits nodes, or a flavor, with the others'.

    RULE: the pod names its flavor's labels, and refuses nodes with a label of GPU feature discovery, spot
    nodes and a tenant's own. Kueue (v0.19) looks only at the labels that a flavor has, the scheduler at all
    of a node's.
    """
    if is_left_out(others) or any(name in others for name in GPU_NODE_LABELS):
        return False
    return all(others.get(name, value) == value for name, value in labels.items())


def memory_per_core(nodes: Iterable[NodeView]) -> int:
    """What each core has on the poorest of these nodes: whole GiB, or MiB where it is less than one."""
    least = min(node.memory_bytes * CORE_MILLIS // max(node.cpu_millis, CORE_MILLIS) for node in nodes)
    step = GIB if least >= GIB else MIB
    return max(least // step * step, MIB)


def on_node(node: NodeView, memory_bytes: int) -> int:
    """How many cores with so much memory each a node has to sell."""
    return min(node.cpu_millis // CORE_MILLIS, node.memory_bytes // max(1, memory_bytes))


def _flavor(nodes: Sequence[NodeView]) -> FlavorDraft:
    memory = memory_per_core(nodes)
    offer = OfferDraft(
        naming=Naming("cpu-cores"),
        name="CPU cores",
        sharing_mode=SharingMode.NO_DEVICE,
        profile="",
        gpu_memory_bytes=0,
        share_numerator=0,
        share_denominator=1,
        cpu_millis=CORE_MILLIS,
        memory_bytes=memory,
        hourly=list_prices.of_core(memory),
        mechanism=Mechanism.NODE,
    )
    return FlavorDraft(Naming("cpu"), "CPU", "", {}, tolerations_of(nodes), (offer,))
