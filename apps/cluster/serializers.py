"""How clusters, nodes and devices look in REST."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework import serializers

from apps.cluster import inventory
from apps.cluster.models import Cluster
from apps.cluster.quantities import format_bytes, format_millis
from apps.cluster.selectors import ShownGpu, ShownNode
from apps.web.serializers import StrictSerializer


class CapabilitySerializer(serializers.Serializer[Any]):
    """One ability of a cluster; `message` says what a missing one switches off."""

    name = serializers.CharField()
    available = serializers.BooleanField()
    version = serializers.CharField(allow_null=True)
    message = serializers.CharField()


class ClusterStatusSerializer(serializers.Serializer[Any]):
    """What was observed of a cluster."""

    phase = serializers.ChoiceField(choices=Cluster.Phase.choices)
    message = serializers.CharField(allow_blank=True)
    version = serializers.CharField(allow_null=True)
    simulated = serializers.BooleanField()
    capabilities = CapabilitySerializer(many=True)
    last_seen_at = serializers.DateTimeField(allow_null=True)
    silent_since = serializers.DateTimeField(allow_null=True)


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


class ClusterSerializer(serializers.Serializer[Any]):
    """A registered cluster."""

    object = serializers.CharField(default="cluster")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    spec = serializers.JSONField(help_text="kubeconfig is null: it is never shown")
    status = ClusterStatusSerializer()


class NodeSerializer(serializers.Serializer[Any]):
    """A node; `flavor` is null where no offer is made of it, `handover` unless it changes hands.

    `posture`: shared (serves everybody), dedicated (serves `tenant` alone), or clearing and releasing.
    """

    object = serializers.CharField(default="node")
    id = serializers.CharField()
    name = serializers.CharField()
    cluster = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    flavor = serializers.CharField(allow_null=True)
    devices = serializers.ListField(child=serializers.CharField())
    devices_held = serializers.IntegerField()
    driver_version = serializers.CharField(allow_null=True)
    posture = serializers.ChoiceField(choices=["shared", "dedicated", "clearing", "releasing"])
    tenant = serializers.CharField(allow_null=True)
    handover = serializers.JSONField(allow_null=True, help_text="stop_at, reason, message")
    cpu = serializers.CharField()
    memory = serializers.CharField()
    ready = serializers.BooleanField()
    schedulable = serializers.BooleanField()


class MigPartSerializer(serializers.Serializer[Any]):
    """One slice of a GPU."""

    profile = serializers.CharField()
    start = serializers.IntegerField(allow_null=True)
    workload = serializers.UUIDField(allow_null=True)


class HolderSerializer(serializers.Serializer[Any]):
    """Who has a device allocated."""

    namespace = serializers.CharField()
    claim = serializers.CharField()
    pods = serializers.ListField(child=serializers.CharField())
    workload = serializers.UUIDField(allow_null=True)


class DeviceSerializer(serializers.Serializer[Any]):
    """A physical GPU; `holders` is null where the caller may not know, an empty list where nobody holds
    it.
    """

    object = serializers.CharField(default="device")
    id = serializers.CharField()
    uuid = serializers.CharField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    model = serializers.CharField()
    gpu_memory = serializers.CharField(allow_null=True)
    sharing_mode = serializers.CharField()
    mig_layout = MigPartSerializer(many=True)
    health = serializers.ChoiceField(choices=["ok", "tainted"])
    free = serializers.IntegerField(help_text="parts of it that nobody holds")
    holders = HolderSerializer(many=True, allow_null=True)
    utilization = serializers.JSONField(allow_null=True)


def cluster_body(row: Cluster) -> Mapping[str, Any]:
    """A cluster as REST shows it; never where its credentials lie."""
    status = {
        "phase": row.phase, "message": row.message, "version": row.version or None,
        "simulated": row.is_simulated, "capabilities": row.capabilities,
        "last_seen_at": row.last_seen_at, "silent_since": row.silent_since,
    }  # fmt: skip
    facts = {"object": "cluster", "id": row.pk, "slug": row.slug, "name": row.name}
    shown = {"generation": row.generation, "created_at": row.created_at, "spec": {"kubeconfig": None}}
    return ClusterSerializer({**facts, **shown, "status": status}).data


@dataclass(frozen=True)
class NodeUse:
    """What a node is used for; the apps above know."""

    flavor: str | None = None
    posture: str = "shared"
    tenant: str | None = None
    handover: Mapping[str, Any] | None = None


def node_body(shown: ShownNode, use: NodeUse) -> Mapping[str, Any]:
    """A node as REST shows it."""
    view = shown.view
    versions = {device.driver_version for device in shown.devices if device.driver_version}
    return NodeSerializer({
        "object": "node", "id": shown.uid, "name": view.name, "cluster": shown.cluster.slug,
        "labels": view.labels, "flavor": use.flavor, "devices": [device.name for device in shown.devices],
        "devices_held": shown.held, "driver_version": min(versions, default=None),
        "posture": use.posture, "tenant": use.tenant, "handover": use.handover,
        "cpu": format_millis(view.cpu_millis), "memory": format_bytes(view.memory_bytes),
        "ready": view.ready, "schedulable": view.schedulable,
    }).data  # fmt: skip


def device_body(shown: ShownGpu) -> Mapping[str, Any]:
    """A physical GPU as REST shows it."""
    view = shown.view
    tainted = any(device.tainted for device in view.devices)
    return DeviceSerializer({
        "object": "device", "id": view.id, "uuid": view.id, "cluster": shown.cluster.slug, "node": view.node,
        "model": view.model, "gpu_memory": format_bytes(view.memory_bytes) if view.memory_bytes else None,
        "sharing_mode": "mig" if view.slices else "exclusive",
        "mig_layout": [_part(shown, device) for device in view.slices],
        "health": "tainted" if tainted else "ok",
        "free": sum(1 for device in view.devices if device.key not in shown.held),
        "holders": _holders(shown), "utilization": None,
    }).data  # fmt: skip


def _part(shown: ShownGpu, device: inventory.DeviceView) -> dict[str, Any]:
    start = inventory.slice_start(device)
    return {"profile": device.profile, "start": start, "workload": shown.workload_of(device)}


def _holders(shown: ShownGpu) -> list[dict[str, Any]] | None:
    if not shown.tells_holders:
        return None
    return [
        {
            "namespace": holder.namespace,
            "claim": holder.claim,
            "pods": list(holder.pods),
            "workload": shown.workloads.get(holder.claim_uid),
        }
        for holder in shown.held.values()
    ]
