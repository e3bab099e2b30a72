"""From what a fleet is to what it can offer: inventory in, flavors and offers to be out.

Pure. What Dynamic Resource Allocation publishes is offered to everybody, or to the one tenant whose node it
lies on; what a device plugin shares out (time-slicing, MPS) only to the tenant whose node it is, because the
kubelet picks the device and two tenants could meet on it. Stores nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from apps.cluster.mirror.rules.hardware import GPU_DRIVER, DeviceView, NodeView
from apps.cluster.objects import names
from apps.cluster.objects.quantities import whole_number
from apps.quotas.catalogue.rules import cores
from apps.quotas.catalogue.rules.drafts import (
    CAPACITY_LABEL,
    GIB,
    PRODUCT_LABEL,
    SPOT,
    FlavorDraft,
    Naming,
    OfferDraft,
    named,
    telling_labels,
    tolerations_of,
)
from apps.quotas.catalogue.rules.list_prices import HOURLY, SPOT_FACTOR
from apps.quotas.specs import Mechanism, SharingMode

STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
_SHARED_TELL = (STRATEGY_LABEL, REPLICAS_LABEL)
SHARED_RESOURCES = ("nvidia.com/gpu.shared", "nvidia.com/gpu")
"""What the plugin calls a share: with `renameByDefault`, and without."""

_STRATEGIES = {"time-slicing": SharingMode.TIME_SLICING, "mps": SharingMode.MPS}
CPU_STEP_MILLIS = 500
_MODEL_WORD = re.compile(r"[A-Z]{1,3}[0-9]{1,4}[A-Z]?")


def plan(devices: Iterable[DeviceView], nodes: Iterable[NodeView]) -> tuple[FlavorDraft, ...]:
    """One flavor per GPU model and set of telling node labels, one offer per MIG profile or whole GPU on it.

    Rule: the labels that tell nodes apart are GPU feature discovery's product, Karpenter's capacity type and
    the tenant that a node serves, so that spot nodes are a flavor (and a price) of their own, and a tenant's
    nodes are its own. Memory is the smallest that a device of the
    offer reports. Nodes without a GPU are sold by the core (`cores.plan`).
    """
    by_node, seen = {node.name: node for node in nodes}, list(devices)
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[DeviceView]] = defaultdict(list)
    for device in seen:
        if device.driver == GPU_DRIVER and device.type in ("gpu", "mig") and device.node in by_node:
            groups[device.model, telling_labels(by_node[device.node])].append(device)
    short = _short_names({model for model, _ in groups})
    drafts = [
        _flavor(short[model], dict(labels), members, by_node=by_node)
        for (model, labels), members in sorted(groups.items())
    ]
    every = list(by_node.values())
    return told_apart([*drafts, *plan_shared(every), *cores.plan(seen, every)])


def told_apart(drafts: Iterable[FlavorDraft]) -> tuple[FlavorDraft, ...]:
    """The same, those after the first of a slug with a number behind it, and so their offers."""
    flavors: set[str] = set()
    offers: set[str] = set()
    return tuple(
        replace(
            draft,
            naming=_free(draft.naming, flavors),
            offers=tuple(replace(each, naming=_free(each.naming, offers)) for each in draft.offers),
        )
        for draft in drafts
    )


def _free(naming: Naming, taken: set[str]) -> Naming:
    free = naming.free(taken.__contains__)
    taken.add(free.slug)
    return free


def plan_shared(nodes: Iterable[NodeView]) -> tuple[FlavorDraft, ...]:
    """One flavor and one offer per kind of shared GPU on the nodes of one tenant; none for anybody else's.

    Source: NVIDIA's device plugin and GPU feature discovery v0.20 (labels, `.shared` names). Rules: compute
    is 1/replicas; MPS limits memory to as much, time-slicing leaves all of it to everybody.
    """
    groups: dict[tuple[tuple[str, str], ...], list[NodeView]] = defaultdict(list)
    for node in nodes:
        if node.labels.get(names.LABEL_TENANT) and shared_resource(node):
            groups[telling_labels(node, *_SHARED_TELL)].append(node)
    return tuple(_shared_flavor(dict(labels), members) for labels, members in sorted(groups.items()))


def shared_resource(node: NodeView) -> str:
    """What a device plugin calls the shares of this node's GPUs; empty where it shares none."""
    if node.labels.get(STRATEGY_LABEL) not in _STRATEGIES:
        return ""
    return next((name for name in SHARED_RESOURCES if whole_number(node.resources.get(name, 0))), "")


def _shared_flavor(labels: dict[str, str], nodes: Sequence[NodeView]) -> FlavorDraft:
    first = nodes[0]
    mode, replicas = _STRATEGIES[first.labels[STRATEGY_LABEL]], _number(first, REPLICAS_LABEL)
    gpus = max(1, _number(first, "nvidia.com/gpu.count"))
    model = first.labels.get(PRODUCT_LABEL, "GPU").removesuffix("-SHARED")
    short, tenant = _model_word(model), labels[names.LABEL_TENANT]
    memory = _number(first, "nvidia.com/gpu.memory") * 1024**2
    parts = gpus * replicas
    naming = Naming(short, (mode.value, tenant))
    offer = OfferDraft(
        naming=naming,
        name=named(short, f" {mode.label} 1/{replicas} of {tenant}"),
        sharing_mode=mode,
        profile="",
        gpu_memory_bytes=memory // replicas if mode is SharingMode.MPS else memory,
        share_numerator=1,
        share_denominator=replicas,
        cpu_millis=max(CPU_STEP_MILLIS, first.cpu_millis // parts // CPU_STEP_MILLIS * CPU_STEP_MILLIS),
        memory_bytes=max(GIB, first.memory_bytes // parts // GIB * GIB),
        hourly=list_price(short, 1, replicas),
        mechanism=Mechanism.DEVICE_PLUGIN,
        resource_name=shared_resource(first),
    )
    name = named(short, f" {mode.label} of {tenant}")
    return FlavorDraft(naming, name, model, labels, tolerations_of(nodes), (offer,))


def _number(node: NodeView, label: str) -> int:
    text = node.labels.get(label, "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def _flavor(
    short: str, labels: dict[str, str], devices: Sequence[DeviceView], *, by_node: dict[str, NodeView]
) -> FlavorDraft:
    is_spot, tenant = labels.get(CAPACITY_LABEL) == SPOT, labels.get(names.LABEL_TENANT, "")
    kind = f"{short} {SPOT}" if is_spot else short
    naming = Naming(short, (SPOT if is_spot else "", tenant))
    name = named(kind, f" of {tenant}" if tenant else "")
    by_profile: dict[str, list[DeviceView]] = defaultdict(list)
    for device in devices:
        by_profile[device.profile].append(device)
    per_node = _gpus_per_node(devices)
    offers = tuple(
        _offer(
            naming, kind, found, [_with_device(device, by_node[device.node], per_node) for device in found]
        )
        for _, found in sorted(by_profile.items())
    )
    tolerations = tolerations_of(by_node[device.node] for device in devices)
    return FlavorDraft(naming, name, devices[0].model, labels, tolerations, offers)


def _offer(
    flavor: Naming, kind: str, devices: Sequence[DeviceView], shares: Sequence[tuple[int, int]]
) -> OfferDraft:
    first = devices[0]
    profile = first.profile
    return OfferDraft(
        naming=flavor.marked(profile or "whole"),
        name=named(kind, f" {profile} MIG slice" if profile else " whole"),
        sharing_mode=SharingMode.MIG if profile else SharingMode.EXCLUSIVE,
        profile=profile,
        gpu_memory_bytes=min(device.memory_bytes for device in devices),
        share_numerator=first.share_numerator,
        share_denominator=first.share_denominator,
        cpu_millis=min(cpu for cpu, _ in shares),
        memory_bytes=min(memory for _, memory in shares),
        hourly=list_price(kind, first.share_numerator, first.share_denominator),
    )


def list_price(name: str, numerator: int, denominator: int) -> Decimal | None:
    """The list price of a device per hour: the whole GPU's x its compute share, to a hundredth of a cent.

    `name` is the flavor's, such as "H100" or "L4 spot"; None for a model that has no list price.
    """
    whole = HOURLY.get(name.split(maxsplit=1)[0])
    if whole is None:
        return None
    factor = SPOT_FACTOR if name.endswith(f" {SPOT}") else Decimal(1)
    return (whole * factor * numerator / denominator).quantize(Decimal("0.0001"), ROUND_HALF_UP)


def _with_device(device: DeviceView, node: NodeView, gpus: dict[str, int]) -> tuple[int, int]:
    # One physical GPU's part of the node times the slice's compute share, rounded down so that all fit.
    share = (device.share_numerator, device.share_denominator * gpus[device.node])
    cpu = node.cpu_millis * share[0] // share[1] // CPU_STEP_MILLIS * CPU_STEP_MILLIS
    memory = node.memory_bytes * share[0] // share[1] // GIB * GIB
    return max(cpu, CPU_STEP_MILLIS), max(memory, GIB)


def _gpus_per_node(devices: Iterable[DeviceView]) -> dict[str, int]:
    physical: dict[str, set[str]] = defaultdict(set)
    for device in devices:
        physical[device.node].add(device.parent_uuid or device.uuid or device.name)
    return {node: len(gpus) for node, gpus in physical.items()}


def _short_names(models: Iterable[str]) -> dict[str, str]:
    """`NVIDIA H100 80GB HBM3` is "H100"; where two models would share that, their memory is added ("A100
    80GB").
    """
    words = {model: _model_word(model) for model in models}
    often = Counter(words.values())
    return {model: word if often[word] == 1 else _with_memory(model, word) for model, word in words.items()}


def _with_memory(model: str, word: str) -> str:
    memory = re.search(r"[0-9]+GB", model)
    return f"{word} {memory.group()}" if memory else model


def _model_word(model: str) -> str:
    words = re.split(r"[\s_-]+", model)
    return next((word for word in words if _MODEL_WORD.fullmatch(word)), model)
