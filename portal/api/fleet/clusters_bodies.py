"""How clusters, nodes and devices look in REST."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rest_framework import serializers

from apps.cluster.mirror.rules import boards, hardware
from apps.cluster.mirror.selectors.inventory import ShownGpu, ShownNode
from apps.cluster.models import Cluster
from apps.cluster.objects.quantities import format_bytes, format_millis
from apps.cluster.specs import NodeUse, Posture
from apps.web.shapes.bodies import Id
from portal.api.base.serializers import StrictSerializer


class ClusterSpecSerializer(StrictSerializer):
    """What is asked of a cluster; never shown again."""

    kubeconfig = serializers.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        max_length=200_000,
        trim_whitespace=False,
        help_text="YAML with inline data only; null keeps it. Reads answer null",
    )


class ClusterDocumentSerializer(StrictSerializer):
    """The writable part of a cluster."""

    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    spec = ClusterSpecSerializer(required=False)


class NewClusterSerializer(ClusterDocumentSerializer):
    """What POST takes."""

    slug = serializers.CharField(max_length=40)


class CapabilityBody(TypedDict):
    """One ability of a cluster."""

    name: str
    available: bool
    version: str | None
    message: Annotated[str, "What a missing one switches off, and what brings it."]
    missing: Annotated[list[str], "What is not there of it, by name."]


class ClusterStatusBody(TypedDict):
    """What was observed of a cluster."""

    phase: Cluster.Phase
    message: str
    version: str | None
    simulated: bool
    capabilities: list[CapabilityBody]
    last_seen_at: datetime | None
    silent_since: Annotated[datetime | None, "Null while it answers."]
    held_since: Annotated[datetime | None, "Since when nothing is written to it: a backup was loaded."]


class ClusterSpecBody(TypedDict):
    """What is asked of a cluster."""

    kubeconfig: Annotated[None, "It is never shown."]


class ClusterBody(TypedDict):
    """A registered cluster."""

    object: Literal["cluster"]
    id: Id
    slug: str
    name: str
    generation: int
    created_at: datetime
    spec: ClusterSpecBody
    status: ClusterStatusBody


class NodeBody(TypedDict):
    """A node of the fleet."""

    object: Literal["node"]
    id: str
    name: str
    cluster: str
    labels: Mapping[str, str]
    flavor: Annotated[str | None, "Null where no offer is made of it."]
    devices: list[str]
    devices_held: int
    other_devices: Annotated[list[str], "What it has of devices that are no GPUs. They are not sold."]
    driver_version: str | None
    posture: Posture
    tenant: Annotated[str | None, "The tenant that it serves alone."]
    handover: Annotated[Mapping[str, Any] | None, "While it changes hands: stop_at, reason, message."]
    cpu: str
    memory: str
    ready: bool
    schedulable: bool


class MigPartBody(TypedDict):
    """One slice of a GPU."""

    profile: str
    start: int | None
    workload: Id | None


class HolderBody(TypedDict):
    """Who has a device allocated."""

    namespace: str
    claim: str
    pods: list[str]
    workload: Id | None
    gpu_memory: Annotated[str | None, "What it has of a device in shares; null: all of it."]


class DeviceBody(TypedDict):
    """A physical GPU."""

    object: Literal["device"]
    id: str
    uuid: str
    cluster: str
    node: str
    model: str
    gpu_memory: str | None
    sharing_mode: Annotated[
        Literal["exclusive", "mig", "shares"], "Shares: claims have parts of its memory, side by side."
    ]
    mig_layout: list[MigPartBody]
    health: Annotated[
        Literal["ok", "tainted", "unhealthy"],
        "Unhealthy: telemetry told a fatal XID of it, and no reset since.",
    ]
    taints: Annotated[list[str], "What its driver says of it: `key=value (effect)`."]
    free: Annotated[
        int,
        "Parts of it that nobody holds; of a board that is cut on demand 1 while anything can still be cut.",
    ]
    holders: Annotated[
        list[HolderBody] | None, "Null where the caller may not know; empty where nobody holds it."
    ]
    utilization: Annotated[Mapping[str, Any] | None, "See the utilization resources."]


def cluster_body(row: Cluster) -> ClusterBody:
    """A cluster as REST shows it; never where its credentials lie."""
    return {
        "object": "cluster", "id": str(row.pk), "slug": row.slug, "name": row.name,
        "generation": row.generation, "created_at": row.created_at, "spec": {"kubeconfig": None},
        "status": {
            "phase": Cluster.Phase(row.phase), "message": row.message, "version": row.version or None,
            "simulated": row.is_simulated,
            "capabilities": [_capability(each) for each in row.capabilities],
            "last_seen_at": row.last_seen_at, "silent_since": row.silent_since,
            "held_since": row.held_since,
        },
    }  # fmt: skip


def _capability(kept: Mapping[str, Any]) -> CapabilityBody:
    """As it was detected; an older look names nothing that is missing."""
    return {
        "name": kept["name"], "available": kept["available"], "version": kept["version"],
        "message": kept["message"], "missing": kept.get("missing", []),
    }  # fmt: skip


def node_body(shown: ShownNode, use: NodeUse) -> NodeBody:
    """A node as REST shows it."""
    view = shown.view
    versions = {device.driver_version for device in shown.devices if device.driver_version}
    return {
        "object": "node", "id": shown.uid, "name": view.name, "cluster": shown.cluster.slug,
        "labels": view.labels, "flavor": use.flavor, "devices": [device.name for device in shown.devices],
        "devices_held": shown.held, "other_devices": list(shown.others),
        "driver_version": min(versions, default=None),
        "posture": Posture(use.posture), "tenant": use.tenant, "handover": use.handover,
        "cpu": format_millis(view.cpu_millis), "memory": format_bytes(view.memory_bytes),
        "ready": view.ready, "schedulable": view.schedulable,
    }  # fmt: skip


def device_body(shown: ShownGpu, dead: Collection[str] = ()) -> DeviceBody:
    """A physical GPU as REST shows it; `dead` are the names of those that died of an XID."""
    view = shown.view
    tainted = any(device.tainted for device in view.devices)
    return {
        "object": "device", "id": view.id, "uuid": view.id, "cluster": shown.cluster.slug, "node": view.node,
        "model": view.model, "gpu_memory": format_bytes(view.memory_bytes) if view.memory_bytes else None,
        "sharing_mode": _sharing_mode(view),
        "mig_layout": [_part(shown, device) for device in view.slices],
        "health": "unhealthy" if view.id in dead else "tainted" if tainted else "ok",
        "taints": sorted({str(taint) for device in view.devices for taint in device.taints}),
        "free": sum(device.key not in shown.held for device in boards.present(view.devices, shown.held)),
        "holders": _holders(shown), "utilization": None,
    }  # fmt: skip


def _sharing_mode(view: hardware.GpuView) -> Literal["exclusive", "mig", "shares"]:
    if view.slices:
        return "mig"
    return "shares" if any(device.is_in_shares for device in view.devices) else "exclusive"


def _part(shown: ShownGpu, device: hardware.DeviceView) -> MigPartBody:
    start = hardware.slice_start(device)
    return {"profile": device.profile, "start": start, "workload": shown.workload_of(device)}


def _holders(shown: ShownGpu) -> list[HolderBody] | None:
    if not shown.tells_holders:
        return None
    return [
        {
            "namespace": holder.namespace,
            "claim": holder.claim,
            "pods": list(holder.pods),
            "workload": shown.workloads.get(holder.claim_uid),
            "gpu_memory": None if holder.memory_bytes is None else format_bytes(holder.memory_bytes),
        }
        for part in shown.held.values()
        for holder in part
    ]
