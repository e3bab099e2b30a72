"""Reading clusters and the mirror: what the pages, the API and the apps above see. Never calls a cluster."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any, Protocol

from django.db.models import CharField, Count, Max, QuerySet, Sum, UUIDField

from apps.cluster import request_cache
from apps.cluster.mirror.rules import boards, hardware
from apps.cluster.mirror.rules.plugin_resources import is_other_device
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.quantities import whole_number
from apps.cluster.specs import Body
from apps.errors import NotFound
from apps.prepared import Prepared

KEPT = timedelta(days=1)
"""How long the tombstone of what is gone stays in the mirror."""


class Viewer(Protocol):
    """Who looks: an Actor fits."""

    @property
    def sees_everything(self) -> bool:
        """Whether every tenant is visible."""


@dataclass(frozen=True)
class ShownNode:
    """A node with all that its drivers publish; of what is there side by side (`boards.present`) the count,
    how many are held and how many new work can have; and its other devices by name.
    """

    cluster: Cluster
    uid: str
    view: hardware.NodeView
    devices: tuple[hardware.DeviceView, ...]
    count: int
    held: int
    free: int
    others: tuple[str, ...]


@dataclass(frozen=True)
class ShownDevice:
    """A device with who holds it; `holders` is empty while it is free or not for this viewer to know."""

    cluster: Cluster
    view: hardware.DeviceView
    held: bool
    holders: tuple[hardware.Holder, ...]


@dataclass(frozen=True)
class ShownGpu:
    """A physical GPU with who holds which part; `workloads` names the workload of a claim by its uid."""

    cluster: Cluster
    view: hardware.GpuView
    held: Mapping[hardware.DeviceKey, tuple[hardware.Holder, ...]]
    workloads: Mapping[str, str]
    tells_holders: bool

    def workload_of(self, device: hardware.DeviceView) -> str | None:
        """The workload that holds this part, if there is one and the viewer may know."""
        ours = (self.workloads.get(holder.claim_uid) for holder in self.held.get(device.key, ()))
        return next(filter(None, ours), None)


def clusters_for(viewer: Viewer) -> QuerySet[Cluster]:
    """Clusters are for platform engineers and auditors."""
    rows = Cluster.objects.order_by("slug")
    return rows if viewer.sees_everything else rows.none()


@dataclass(frozen=True)
class Ability:
    """Whether a cluster can do something, with the words that the inventory page says about it."""

    available: bool
    message: str


@dataclass(frozen=True)
class Lack:
    """The names of what is missing of a capability, if it has parts, and the words for it."""

    names: frozenset[str]
    message: str


def capability(cluster: Cluster, name: str) -> Ability:
    """One capability as last detected; what nobody has looked for yet is not available."""
    found = next((each for each in cluster.capabilities if each["name"] == name), None)
    if found is None:
        return Ability(False, f"{cluster.slug} has not been looked at yet.")
    return Ability(bool(found["available"]), str(found["message"]))


def lacks(cluster: Cluster, name: str) -> Lack | None:
    """What is missing of a capability, as last detected; None where nothing is, or nobody has looked."""
    found = next((each for each in cluster.capabilities if each["name"] == name), None)
    if found is None or found["available"]:
        return None
    return Lack(frozenset(found.get("missing") or ()), str(found["message"]))


def objects(cluster: Any, kind: Any, *, namespace: str = "") -> QuerySet[MirrorObject]:
    """The mirror's rows of a kind that are there now."""
    rows = MirrorObject.objects.filter(cluster=cluster, kind=kind, gone_at=None)
    return rows.filter(namespace=namespace) if namespace else rows


def named(cluster: Any, kind: Any, names: Any) -> QuerySet[MirrorObject]:
    """Those of these names, of a kind without namespaces.

    RULE: the query says that the namespace is empty. No index finds a row by kind and name alone, so every
    object of the kind would be read.
    """
    return MirrorObject.objects.filter(cluster=cluster, kind=kind, namespace="", name__in=names, gone_at=None)


def bodies(cluster: Cluster, kind: str, *, namespace: str = "") -> list[Body]:
    """The trimmed objects of a kind that are there now, in the order of their names."""
    return request_cache.memo(
        ("bodies", cluster.pk, kind, namespace), lambda: _bodies(cluster, kind, namespace)
    )


def _bodies(cluster: Cluster, kind: str, namespace: str) -> list[Body]:
    if not namespace:
        return [body for *_, body in sorted(_BODIES(cluster.pk, kind), key=itemgetter(0, 1))]
    rows = objects(cluster, kind, namespace=namespace).order_by("name")
    return list(rows.values_list("body", flat=True))


# Without an order: for that of their names SQLite reads all tombstones of the kind as well.
_BODIES = Prepared(
    lambda cluster, kind: objects(cluster, kind).values_list("namespace", "name", "body"),
    UUIDField(),
    CharField(),
)


@dataclass(frozen=True)
class _Fleet:
    """A cluster's hardware as last parsed, and the mark that showed it was the newest."""

    mark: Hashable
    nodes: tuple[hardware.NodeView, ...]
    devices: tuple[hardware.DeviceView, ...]
    partial: frozenset[hardware.Pool]

    @property
    def gpus(self) -> list[hardware.DeviceView]:
        """Without other drivers' devices."""
        return [device for device in self.devices if device.driver == hardware.GPU_DRIVER]


_HARDWARE = ("Node", "ResourceSlice")
GPU_COUNT = "nvidia.com/gpu.count"
_fleets: dict[Any, _Fleet] = {}


def nodes(cluster: Cluster) -> list[hardware.NodeView]:
    """The cluster's nodes."""
    return list(_fleet(cluster).nodes)


def node_names(cluster: Cluster) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the nodes that are there, and of those that were taken away within a day."""
    rows = MirrorObject.objects.filter(cluster=cluster, kind="Node").values_list("name", "gone_at")
    there = frozenset(name for name, gone_at in rows if gone_at is None)
    return there, frozenset(name for name, _ in rows) - there


def devices(cluster: Cluster) -> list[hardware.DeviceView]:
    """The cluster's GPUs and slices of them, with the labels of their nodes."""
    return _fleet(cluster).gpus


def devices_by_name(cluster: Cluster) -> dict[str, hardware.DeviceView]:
    """The same by `pool/name`, as the ledger names a device."""
    return {f"{device.pool}/{device.name}": device for device in devices(cluster)}


def other_devices(cluster: Cluster) -> dict[str, list[str]]:
    """By node what it has of devices that are no GPUs, as drivers and plugins call it. It is not sold."""
    return _others(_fleet(cluster))


def _others(fleet: _Fleet) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for device in fleet.devices:
        if device.driver != hardware.GPU_DRIVER and device.node:
            found.setdefault(device.node, []).append(f"{device.driver}/{device.name}")
    for node in fleet.nodes:
        for resource, amount in sorted(node.resources.items()):
            if is_other_device(resource) and str(amount) != "0":
                found.setdefault(node.name, []).append(f"{resource}: {amount}")
    return found


def partial_pools(cluster: Cluster) -> frozenset[hardware.Pool]:
    """Pools of which slices are missing that their driver is about to publish."""
    return _fleet(cluster).partial


def _fleet(cluster: Cluster) -> _Fleet:
    """Parsed once per process and version: hardware changes a few times an hour, and every request asks.

    RULE: the mark moves with every write of a row: an update raises its version and stamps it, a row that
    comes or goes changes count and sum.
    """
    mark = request_cache.memo(("hardware", cluster.pk), lambda: _mark_of(cluster))
    kept = _fleets.get(cluster.pk)
    if kept is None or kept.mark != mark:
        found = hardware.nodes(bodies(cluster, "Node"))
        slices = bodies(cluster, "ResourceSlice")
        parts, partial = hardware.devices(slices, found), hardware.partial_pools(slices)
        kept = _fleets[cluster.pk] = _Fleet(mark, tuple(found), tuple(parts), partial)
    return kept


def _mark_of(cluster: Cluster) -> Hashable:
    return _MARK.first(cluster.pk)


_MARK: Prepared[Hashable] = Prepared(
    lambda cluster: (
        MirrorObject.objects.filter(cluster=cluster, kind__in=_HARDWARE, gone_at=None)
        .values("cluster")
        .annotate(n=Count("pk"), sum=Sum("pk"), version=Sum("resource_version"), seen=Max("seen_at"))
        .values_list("n", "sum", "version", "seen")
    ),
    UUIDField(),
)


def held_devices(cluster: Cluster) -> dict[hardware.DeviceKey, tuple[hardware.Holder, ...]]:
    """Which devices are allocated, to which claims."""
    return hardware.holders(bodies(cluster, "ResourceClaim"))


def nodes_for(viewer: Viewer) -> list[ShownNode]:
    """Every node of every cluster, for those who see everything; nobody else learns what the fleet is made
    of.
    """
    return [shown for cluster in clusters_for(viewer) for shown in _shown_nodes(cluster)]


def devices_for(viewer: Viewer) -> list[ShownDevice]:
    """Every device. Everybody may see what there is and what is free; who holds it only those who see
    everything.
    """
    shown = []
    for cluster in Cluster.objects.order_by("slug"):
        held = held_devices(cluster)
        for view in devices(cluster):
            known = held.get(view.key, ()) if viewer.sees_everything else ()
            shown.append(ShownDevice(cluster, view, view.key in held, known))
    return shown


def workloads_of_claims(cluster: Cluster) -> dict[str, str]:
    """The workload (id) that each claim (uid) belongs to; claims of nobody we know are left out."""
    rows = objects(cluster, "ResourceClaim").filter(owner_kind="workload")
    return dict(rows.values_list("uid", "owner_id"))


def cluster_for(viewer: Viewer, slug_or_id: str) -> Cluster:
    """The cluster with that slug or id, if the viewer sees it; raises NotFound."""
    for row in clusters_for(viewer):
        if slug_or_id in (row.slug, str(row.pk)):
            return row
    raise NotFound


def gpus_for(viewer: Viewer) -> list[ShownGpu]:
    """Every physical GPU of every cluster; who holds it is known to those who see everything."""
    shown = []
    for cluster in Cluster.objects.order_by("slug"):
        held = held_devices(cluster)
        owners = workloads_of_claims(cluster) if viewer.sees_everything else {}
        for gpu in hardware.gpus(devices(cluster)):
            mine = {part.key: held[part.key] for part in gpu.devices if part.key in held}
            shown.append(ShownGpu(cluster, gpu, mine, owners, viewer.sees_everything))
    return shown


def gpu_count(cluster: Cluster) -> int:
    """How many physical GPUs there are: those published, and of a node whose driver publishes none, as many
    as its label says.
    """
    published = hardware.gpus(devices(cluster))
    told = {gpu.node for gpu in published}
    rest = (node.labels.get(GPU_COUNT, "0") for node in nodes(cluster) if node.name not in told)
    return len(published) + sum(map(whole_number, rest))


def _shown_nodes(cluster: Cluster) -> list[ShownNode]:
    uids: Mapping[str, Any] = dict(objects(cluster, "Node").values_list("name", "uid"))
    held, fleet = held_devices(cluster), _fleet(cluster)
    others = _others(fleet)
    by_node: dict[str, list[hardware.DeviceView]] = {}
    for device in fleet.gpus:
        by_node.setdefault(device.node, []).append(device)
    found = []
    for node in fleet.nodes:
        own = tuple(by_node.get(node.name, ()))
        there = boards.present(own, held)
        open_ones = [device for device in there if device.key not in held]
        free = sum(1 for device in open_ones if node.schedulable and not device.tainted)
        rest = tuple(others.get(node.name, ()))
        taken = len(there) - len(open_ones)
        found.append(ShownNode(cluster, uids[node.name], node, own, len(there), taken, free, rest))
    return found
