"""What the cluster's GPUs are, read from the mirror: how the facts of hardware want them. Reads only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import CharField, UUIDField

from apps.cluster.mirror.rules import hardware, plugin_resources
from apps.cluster.mirror.rules.hardware import GPU_DRIVER
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.names import LABEL_TENANT
from apps.metering.telemetry.rules import xids
from apps.prepared import Prepared
from apps.quotas.kueue.observation import limit_of
from apps.tenants.isolation.node_patch import FINISHED, is_cordoned
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


@dataclass
class Wanted:
    """How a GPU is. `layout` is None behind a device plugin, which does not tell its devices apart."""

    present: dict[str, Any]
    layout: dict[str, int] | None = None
    cordoned: bool = False
    unhealthy: bool = False
    is_ours: bool = False
    """Whether the platform answers for that it is unhealthy."""
    reserved: bool = False
    uuids: dict[str, str] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    in_shares: dict[str, list[str]] = field(default_factory=dict)
    """Devices of which claims have shares that nothing says the size of, with the names of these."""


class InShares(NamedTuple):
    """The claim that has shares of a device, and how much of the device they are; None: nothing says so."""

    claim: str
    part: Fraction | None


Of = tuple[str, str]
"""A claim's uid, and a device."""


def fleet(cluster: Cluster) -> dict[str, Wanted]:
    """Every GPU that the mirror knows, by its name on the ledger."""
    bodies = {body["metadata"]["name"]: body for body in clusters.bodies(cluster, "Node")}
    devices = clusters.devices(cluster)
    gpus = hardware.gpus(devices)
    found = {gpu.id: _whole_or_cut(gpu, bodies.get(gpu.node)) for gpu in gpus}
    for node in clusters.nodes(cluster):
        found |= _pools(node, bodies[node.name])
    parts = _parts(cluster, devices)
    _add_claims(cluster, found, parts)
    _add_unknown(found, parts)
    return found


def _whole_or_cut(gpu: hardware.GpuView, node: Mapping[str, Any] | None) -> Wanted:
    denominator = lcm(*(device.share_denominator for device in gpu.devices))
    layout = {
        f"{device.pool}/{device.name}": device.share_numerator * denominator // device.share_denominator
        for device in gpu.devices
    }
    present = {"node": gpu.node, "model": gpu.model, "denominator": denominator}
    tainted = all(device.tainted for device in gpu.devices)
    taints = [taint for device in gpu.devices for taint in device.taints if taint.closes]
    is_ours = any(xids.is_our_fault(taint.key, taint.value, taint.effect) for taint in taints)
    uuids = {f"{device.pool}/{device.name}": device.uuid for device in gpu.devices if device.uuid}
    return _on_node(Wanted(present, layout, unhealthy=tainted, is_ours=is_ours, uuids=uuids), node)


def _pools(node: hardware.NodeView, body: Mapping[str, Any]) -> dict[str, Wanted]:
    """What a device plugin hands out of a node."""
    found = {}
    for resource, amount in node.resources.items():
        if pool := plugin_resources.pool_of(resource, amount, node.labels):
            found[f"{node.name}/{resource}"] = _on_node(Wanted(_present(node, pool)), body)
    return found


def _present(node: hardware.NodeView, pool: plugin_resources.Pool) -> dict[str, Any]:
    about = {"node": node.name, "model": pool.model, "denominator": pool.denominator, "pool": True}
    if pool.shares % pool.denominator or pool.part > 1:
        return {**about, "shares": pool.shares, "part": pool.part}
    return {**about, "size": pool.shares // pool.denominator}


def _on_node(wanted: Wanted, node: Mapping[str, Any] | None) -> Wanted:
    """What a node does to its GPUs: one of a tenant's own keeps them for the tenant."""
    is_lost = node is None or not hardware.nodes([node])[0].ready
    wanted.unhealthy |= is_lost
    wanted.is_ours |= is_lost
    if node is None:
        return wanted
    wanted.cordoned = is_cordoned(node)
    wanted.reserved = bool((node["metadata"].get("labels") or {}).get(LABEL_TENANT))
    return wanted


def _add_claims(cluster: Cluster, found: Mapping[str, Wanted], parts: Mapping[Of, InShares]) -> None:
    """Devices in the hands of claims and pods that belong to no workload of ours.

    RULE: in a tenant's namespace it is the tenant's, else nobody's; a claim that no pod uses yet is reserved.
    The UUIDs of a tenant's devices are told too: by them what they do is joined. Of a device in shares the
    claim holds its part, and what the device does is not the claim's.
    """
    where = _where(found)
    tenants = {name: str(pk) for name, pk in _TENANTS(cluster.pk)}
    for row, devices, reserved in [*_claimed(cluster, parts), *_taken(cluster, found)]:
        for device in devices:
            gpu = where.get(device, device.partition("#")[0])
            if gpu in found:
                about = {"devices": [], "tenant": tenants.get(row.namespace, ""), "reserved": reserved}
                claim = found[gpu].claims.setdefault(row.uid, about)
                claim["devices"].append(device)
                share = parts.get((row.uid, device))
                if share and share.part and share.part < 1:
                    claim.setdefault("parts", {})[device] = str(share.part)
                elif claim["tenant"] and (uuid := found[gpu].uuids.get(device)):
                    claim.setdefault("uuids", {})[device] = uuid


def _add_unknown(found: Mapping[str, Wanted], parts: Mapping[Of, InShares]) -> None:
    """RULE: while a claim, whoever's, has a share of a device that nothing says the size of, what the holders
    of known parts leave of the device is held by nobody that is known.
    """
    where = _where(found)
    for (_, device), share in parts.items():
        if share.part is None and (wanted := found.get(where.get(device, ""))):
            rest = {"devices": [device], "tenant": "", "reserved": False, "parts": {device: ""}}
            wanted.claims[device] = rest
            wanted.in_shares.setdefault(device, []).append(share.claim)


def _where(found: Mapping[str, Wanted]) -> dict[str, str]:
    return {name: gpu for gpu, wanted in found.items() for name in wanted.layout or ()}


def _claimed(
    cluster: Cluster, parts: Mapping[Of, InShares]
) -> Iterable[tuple[MirrorObject, list[str], bool]]:
    unknown = {key for key, share in parts.items() if share.part is None}
    for row in _strangers(cluster, "ResourceClaim"):
        keys = set(hardware.allocated(row.body))
        devices = {f"{pool}/{name}" for driver, pool, name in keys if driver == GPU_DRIVER}
        known = sorted(device for device in devices if (row.uid, device) not in unknown)
        yield row, known, not (row.body.get("status") or {}).get("reservedFor")


def _parts(cluster: Cluster, devices: Iterable[hardware.DeviceView]) -> dict[Of, InShares]:
    """The shares that claims, ours as well, have of devices that others may have too."""
    views = {view.key: view for view in devices}
    return {
        (row.uid, f"{key[1]}/{key[2]}"): InShares(
            f"{row.namespace}/{row.name}", hardware.part_of(views.get(key), memory)
        )
        for row in _objects(cluster, "ResourceClaim")
        for key, memory in hardware.consumed(hardware.results_of(row.body)).items()
        if key[0] == GPU_DRIVER
    }


def _taken(cluster: Cluster, found: Mapping[str, Wanted]) -> Iterable[tuple[MirrorObject, list[str], bool]]:
    pools = sorted({gpu.partition("/")[2] for gpu, wanted in found.items() if wanted.layout is None})
    for row in _strangers(cluster, "Pod") if pools else ():
        node = (row.body.get("spec") or {}).get("nodeName", "")
        if node and (row.body.get("status") or {}).get("phase") not in FINISHED:
            counts = [(name, limit_of(row.body, name)) for name in pools]
            yield row, [f"{node}/{name}#{i}" for name, count in counts for i in range(count)], False


def _objects(cluster: Cluster, kind: str) -> list[MirrorObject]:
    """What there is of a kind, by uid: in that order SQLite would read all that ever were in the mirror."""
    return sorted(_OBJECTS(cluster.pk, kind), key=attrgetter("uid"))


def _strangers(cluster: Cluster, kind: str) -> list[MirrorObject]:
    """The objects of a kind that are there and belong to no workload that we know."""
    rows = _objects(cluster, kind)
    owners = {row.owner_id for row in rows if row.owner_kind == "workload"}
    known = {str(pk) for pk, of in _OURS(sorted(owners)) if of == cluster.pk}
    return [row for row in rows if row.owner_kind != "workload" or row.owner_id not in known]


# Not the deleted ones: a namespace that was given back lives on, and is nobody's.
_TENANTS = Prepared(
    lambda cluster: Tenant.objects.filter(cluster=cluster, deleted_at=None).values_list("object_name", "pk"),
    UUIDField(),
)
_OBJECTS = Prepared(clusters.objects, UUIDField(), CharField())
# By id alone: SQLite looks through all workloads of the cluster, and that is mostly every one, to find a few.
_OURS = Prepared(lambda pks: Workload.objects.filter(pk__in=pks).values_list("pk", "cluster_id"), UUIDField())
