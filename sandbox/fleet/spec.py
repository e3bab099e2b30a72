"""The fleet file: pools of nodes, checked against the hardware, with errors that name line and rule.

Gives a `Fleet` of plain values. Makes no Kubernetes object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sandbox.fleet.document import FleetError, Section, read_document
from sandbox.fleet.hardware import MODELS, GpuModel, LayoutError, Placement, place

API_VERSION = "sandbox.allotment.dev/v1"
READY = Path(__file__).parent / "ready"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_MOST_ON_DEMAND = 8
_RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")


class SharingMode(StrEnum):
    """How a pool's GPUs are handed out."""

    WHOLE = "whole"
    MIG = "mig"
    MIG_ON_DEMAND = "mig-on-demand"
    TIME_SLICING = "time-slicing"
    SHARES = "shares"


class Capacity(StrEnum):
    """How the nodes of a pool are bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Effect(StrEnum):
    """A taint's effect."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True)
class Taint:
    """A taint the pool puts on its nodes."""

    key: str
    value: str
    effect: Effect


@dataclass(frozen=True)
class Sharing:
    """`layouts[i]` holds the MIG instances of GPU i; empty means the GPU is not in MIG mode."""

    mode: SharingMode
    replicas: int
    layouts: tuple[tuple[Placement, ...], ...]


@dataclass(frozen=True)
class Versions:
    """Versions the nodes report."""

    kubernetes: str
    driver: str
    cuda: str


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind."""

    name: str
    model: GpuModel | None
    nodes: int
    gpus_per_node: int
    cpu: str
    memory: str
    capacity: Capacity
    sharing: Sharing
    taints: tuple[Taint, ...]
    others: tuple[tuple[str, int], ...] = ()
    """What a plugin hands out that is no GPU, such as network functions: its name and how many a node has."""

    def node_names(self) -> list[str]:
        """Names of its nodes."""
        return [f"{self.name}-{index}" for index in range(self.nodes)]


class PodLabels(StrEnum):
    """What the exporter knows of pods: nothing, or the pod and its claim."""

    NONE = "none"
    FULL = "full"


class HostLabel(StrEnum):
    """What the exporter writes as its label Hostname: the node's name where NODE_NAME is set, else what its
    machine or its pod is called.
    """

    NODE = "node"
    FQDN = "fqdn"
    POD = "pod"


@dataclass(frozen=True)
class Fleet:
    """All pools with what they report."""

    name: str
    versions: Versions
    pools: tuple[Pool, ...]
    pod_labels: PodLabels
    host_label: HostLabel = HostLabel.NODE

    def node_pools(self) -> Iterator[tuple[str, Pool]]:
        """Every node with its pool."""
        for pool in self.pools:
            for name in pool.node_names():
                yield name, pool

    def pool_of(self, node: str) -> Pool | None:
        """The pool of a node."""
        return next((pool for name, pool in self.node_pools() if name == node), None)

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(pool.nodes * pool.gpus_per_node for pool in self.pools)


def ready_fleets() -> list[str]:
    """Names of the fleets that come with the sandbox."""
    return sorted(path.stem for path in READY.glob("*.yaml"))


def load_fleet(name_or_path: str) -> Fleet:
    """A ready fleet by its name, else the fleet file at that path. Raises FleetError or OSError."""
    ready = READY / f"{name_or_path}.yaml"
    path = ready if name_or_path in ready_fleets() else Path(name_or_path)
    return parse_fleet(path.read_text(encoding="utf-8"))


def parse_fleet(text: str) -> Fleet:
    """Check a fleet document against the schema and the hardware. Raises FleetError."""
    top = read_document(text, "fleet")
    if top.text("apiVersion") != API_VERSION or top.text("kind") != "Fleet":
        raise FleetError(top.line, f"a fleet file starts with apiVersion {API_VERSION} and kind Fleet")
    pod_labels, host_label = _telemetry(top.section("telemetry"))
    fleet = Fleet(
        name=_name(top, "name"),
        versions=_versions(top.section("versions")),
        pools=tuple(_pool(p) for p in top.items("pools")),
        pod_labels=pod_labels,
        host_label=host_label,
    )
    top.done()
    if not fleet.pools:
        raise FleetError(top.line_of("pools"), "fleet.pools must hold at least one pool")
    seen: set[str] = set()
    for index, pool in enumerate(fleet.pools):
        if pool.name in seen:
            raise FleetError(top.items("pools")[index].line, f"pool name {pool.name!r} is used twice")
        seen.add(pool.name)
    return fleet


def _name(section: Section, key: str) -> str:
    text = section.text(key)
    if not _NAME.fullmatch(text):
        raise FleetError(
            section.line_of(key), f"{section.name}.{key} must be a DNS label of at most 40 characters"
        )
    return text


def _versions(section: Section | None) -> Versions:
    if section is None:
        return Versions("v1.36.3", "580.95.05", "13.0")
    versions = Versions(
        section.text("kubernetes", "v1.36.3"),
        section.text("driver", "580.95.05"),
        section.text("cuda", "13.0"),
    )
    rules = (("kubernetes", r"v\d+\.\d+\.\d+"), ("driver", r"\d+\.\d+(\.\d+)?"), ("cuda", r"\d+\.\d+"))
    for key, pattern in rules:
        if not re.fullmatch(pattern, getattr(versions, key)):
            raise FleetError(section.line_of(key), f"{section.name}.{key} must look like {pattern}")
    section.done()
    return versions


def _telemetry(section: Section | None) -> tuple[PodLabels, HostLabel]:
    if section is None:
        return PodLabels.FULL, HostLabel.NODE
    chosen = (
        section.choice("podLabels", PodLabels, PodLabels.FULL),
        section.choice("hostname", HostLabel, HostLabel.NODE),
    )
    section.done()
    return chosen


def _pool(section: Section) -> Pool:
    model = _model(section)
    gpus = section.number("gpusPerNode", 0 if model is None else 1, least=0 if model is None else 1, most=16)
    if model is None and gpus:
        raise FleetError(section.line_of("gpusPerNode"), f"{section.name} has GPUs but no model")
    pool = Pool(
        name=_name(section, "name"),
        model=model,
        nodes=section.number("nodes", least=1, most=500),
        gpus_per_node=gpus,
        cpu=str(section.number("cpu", 32, least=1, most=1024)),
        memory=section.quantity("memory", "256Gi"),
        capacity=section.choice("capacity", Capacity, Capacity.ON_DEMAND),
        sharing=_sharing(section, model, gpus),
        taints=tuple(_taint(t) for t in section.items("taints")),
        others=_others(section.section("otherDevices")),
    )
    section.done()
    return pool


def _others(section: Section | None) -> tuple[tuple[str, int], ...]:
    if section is None:
        return ()
    found = tuple((name, section.number(name, least=1)) for name in list(section.keys()))
    for name, _ in found:
        if not _RESOURCE.fullmatch(name):
            raise FleetError(section.line_of(name), f"{section.name}: {name!r} is no resource, such as a.b/c")
    section.done()
    return found


def _model(section: Section) -> GpuModel | None:
    if not section.has("model"):
        return None
    key = section.text("model")
    if key not in MODELS:
        raise FleetError(
            section.line_of("model"), f"{section.name}.model must be one of {', '.join(MODELS)}, not {key!r}"
        )
    return MODELS[key]


def _taint(section: Section) -> Taint:
    taint = Taint(
        section.text("key"), section.text("value", ""), section.choice("effect", Effect, Effect.NO_SCHEDULE)
    )
    section.done()
    return taint


def _sharing(pool: Section, model: GpuModel | None, gpus: int) -> Sharing:
    section = pool.section("sharing")
    none = tuple(() for _ in range(gpus))
    if section is None:
        return Sharing(SharingMode.WHOLE, 1, none)
    if model is None:
        raise FleetError(section.line, f"{section.name} needs a pool with a model")
    mode = section.choice("mode", SharingMode, SharingMode.WHOLE)
    for key, owner in (("layouts", SharingMode.MIG), ("replicas", SharingMode.TIME_SLICING)):
        if section.has(key) and mode is not owner:
            raise FleetError(
                section.line_of(key), f"{section.name}.{key} belongs to mode {owner.value}, not {mode.value}"
            )
    replicas = section.number("replicas", least=2, most=48) if mode is SharingMode.TIME_SLICING else 1
    if mode is SharingMode.MIG_ON_DEMAND:
        _check_on_demand(section, model, gpus)
    layouts = _layouts(section, model, gpus) if mode is SharingMode.MIG else none
    section.done()
    return Sharing(mode, replicas, layouts)


def _check_on_demand(section: Section, model: GpuModel, gpus: int) -> None:
    """RULE: the driver publishes one slice with the counters of all boards, and a slice holds eight sets."""
    if not model.mig_capable:
        raise FleetError(section.line_of("mode"), f"{model.key} has no MIG")
    if gpus > _MOST_ON_DEMAND:
        raise FleetError(
            section.line_of("mode"), f"{section.name}: at most {_MOST_ON_DEMAND} GPUs of a node are on demand"
        )


def _layouts(section: Section, model: GpuModel, gpus: int) -> tuple[tuple[Placement, ...], ...]:
    if not model.mig_capable:
        raise FleetError(section.line_of("mode"), f"{model.key} has no MIG")
    layouts: list[tuple[Placement, ...]] = [() for _ in range(gpus)]
    for item in section.items("layouts"):
        placements = _placements(item, model)
        for gpu in item.numbers("gpus", most=gpus - 1):
            if layouts[gpu]:
                raise FleetError(item.line_of("gpus"), f"GPU {gpu} has two layouts")
            layouts[gpu] = placements
        item.done()
    if not any(layouts):
        raise FleetError(section.line, f"{section.name} is mode mig but no GPU has a layout")
    return tuple(layouts)


def _placements(item: Section, model: GpuModel) -> tuple[Placement, ...]:
    profiles = item.section("profiles")
    if profiles is None:
        raise FleetError(item.line, f"{item.name} needs 'profiles'")
    names: list[str] = []
    for name in list(profiles.keys()):
        names += [name] * profiles.number(name, least=1, most=7)
    try:
        return place(model, names)
    except LayoutError as error:
        raise FleetError(item.line_of("profiles"), str(error)) from error
