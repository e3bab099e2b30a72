"""Faults of the fleet: a node lost, a GPU fallen off the bus, a spot notice, an exporter gap.

A fault is an annotation on its node, so it survives a restart and can be seen. This module writes and reads
them; what follows from them is done by the node controller, the kubelet and the exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, dig, parse_time, timestamp

PREFIX = "sandbox.allotment.dev/"
LOST = f"{PREFIX}lost"
XID = f"{PREFIX}xid"
GAP = f"{PREFIX}exporter-gap-until"
SPOT = f"{PREFIX}spot-ends"
KILLED = f"{PREFIX}killed-at"
SPOT_TAINT = {"key": "aws-node-termination-handler/spot-itn", "value": "notice", "effect": "NoSchedule"}
CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
DRIVER = "gpu.nvidia.com"
_NON_FATAL = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that NVIDIA's driver calls non-fatal: of them it only informs."""


class FaultKind(StrEnum):
    """What can go wrong with a node."""

    NODE_LOST = "node-lost"
    NODE_BACK = "node-back"
    XID = "xid"
    XID_TAINT = "xid-taint"
    POOL_PARTIAL = "pool-partial"
    SPOT_NOTICE = "spot-notice"
    EXPORTER_GAP = "exporter-gap"


@dataclass(frozen=True)
class Fault:
    """One fault to inject; `seconds` is the notice of a spot node or the length of a gap."""

    kind: FaultKind
    node: str
    gpu: int = 0
    seconds: float = 120.0
    code: int = 79


def inject(client: Client, fault: Fault, now: datetime) -> None:
    """Write the fault's marks. Raises LookupError for an unknown node."""
    node = client.get("nodes", fault.node)
    if node is None:
        raise LookupError(f"no node {fault.node}")
    _ACTS[fault.kind](client, node, fault, now)


def xids(node: Obj) -> dict[int, int]:
    """The XID of each broken GPU of a node, by minor."""
    text = dig(node, "metadata", "annotations", XID, default="")
    return {int(m): int(code) for m, _, code in (part.partition("=") for part in text.split(",") if part)}


def exporter_is_silent(node: Obj, now: datetime) -> bool:
    """Whether the node's exporter answers nothing: the node is lost, or in a gap."""
    annotations = dig(node, "metadata", "annotations", default={})
    if annotations.get(LOST):
        return True
    until = annotations.get(GAP)
    return bool(until) and now < parse_time(until)


def _mark(client: Client, node: Obj, key: str, value: str | None) -> None:
    client.patch("nodes", node["metadata"]["name"], {"metadata": {"annotations": {key: value}}})


def _recover(client: Client, node: Obj) -> None:
    taints = [t for t in dig(node, "spec", "taints", default=[]) if t["key"] != SPOT_TAINT["key"]]
    _taint_devices(client, node["metadata"]["name"], "gpu", [])
    _announce_slices(client, node["metadata"]["name"], more=0)
    cleared = dict.fromkeys((LOST, XID, GAP, SPOT))
    patch = {"metadata": {"annotations": cleared}, "spec": {"taints": taints or None}}
    client.patch("nodes", node["metadata"]["name"], patch)


def _xid(client: Client, node: Obj, fault: Fault, now: datetime) -> None:
    """The GPU is gone for everybody on it: their processes die at once."""
    broken = {**xids(node), fault.gpu: fault.code}
    _mark(client, node, XID, ",".join(f"{minor}={code}" for minor, code in sorted(broken.items())))
    message = f"NVRM: Xid (PCI): {fault.code}, GPU {fault.gpu} has fallen off the bus."
    client.event(node, "GPUXIDError", message, type="Warning", component="nvidia-dcgm")
    prefix = f"gpu-{fault.gpu}"
    for claim in client.list(CLAIMS):
        results = dig(claim, "status", "allocation", "devices", "results", default=[])
        if any(r["pool"] == fault.node and (r["device"] + "-").startswith(f"{prefix}-") for r in results):
            for consumer in dig(claim, "status", "reservedFor", default=[]):
                patch = {"metadata": {"annotations": {KILLED: timestamp(now)}}}
                client.patch("pods", consumer["name"], patch, namespace=claim["metadata"]["namespace"])


def _xid_taint(client: Client, fault: Fault, now: datetime) -> None:
    effect = "None" if fault.code in _NON_FATAL else "NoSchedule"
    taint = {"key": f"{DRIVER}/xid", "value": str(fault.code), "effect": effect, "timeAdded": timestamp(now)}
    _taint_devices(client, fault.node, f"gpu-{fault.gpu}", [taint])


def _taint_devices(client: Client, node: str, prefix: str, taints: list[Obj]) -> None:
    """What the DRA driver says of a GPU stands on each of its devices; without taints it says nothing."""
    for published in client.list(SLICES):
        if published["spec"].get("nodeName") != node:
            continue
        before = published["spec"].get("devices") or []  # none where the slice has counters
        devices = [
            _tainted(each, taints) if f"{each['name']}-".startswith(f"{prefix}-") else each for each in before
        ]
        if devices != before:
            client.patch(SLICES, published["metadata"]["name"], {"spec": {"devices": devices}})


def _announce_slices(client: Client, node: str, *, more: int) -> None:
    """What the driver says of how many slices its pool has: as many as there are, or more."""
    own = [each for each in client.list(SLICES) if each["spec"].get("nodeName") == node]
    for each in own:
        if each["spec"]["pool"]["resourceSliceCount"] != len(own) + more:
            patch = {"spec": {"pool": {"resourceSliceCount": len(own) + more}}}
            client.patch(SLICES, each["metadata"]["name"], patch)


def _tainted(device: Obj, taints: list[Obj]) -> Obj:
    rest = {name: value for name, value in device.items() if name != "taints"}
    return {**rest, "taints": taints} if taints else rest


def _spot(client: Client, node: Obj, until: str, seconds: float) -> None:
    taints = [t for t in dig(node, "spec", "taints", default=[]) if t["key"] != SPOT_TAINT["key"]]
    patch = {"metadata": {"annotations": {SPOT: until}}, "spec": {"taints": [*taints, SPOT_TAINT]}}
    client.patch("nodes", node["metadata"]["name"], patch)
    message = f"Spot interruption notice: the instance is taken back in {int(seconds)} s, at {until}"
    client.event(node, "SpotInterruption", message, type="Warning", component="aws-node-termination-handler")


def _until(fault: Fault, now: datetime) -> str:
    return timestamp(now + timedelta(seconds=fault.seconds))


_ACTS: Mapping[FaultKind, Callable[[Client, Obj, Fault, datetime], None]] = {
    FaultKind.NODE_LOST: lambda client, node, _, now: _mark(client, node, LOST, timestamp(now)),
    FaultKind.NODE_BACK: lambda client, node, _fault, _now: _recover(client, node),
    FaultKind.XID: _xid,
    FaultKind.XID_TAINT: lambda client, _, fault, now: _xid_taint(client, fault, now),
    FaultKind.POOL_PARTIAL: lambda client, _node, fault, _now: _announce_slices(client, fault.node, more=1),
    FaultKind.SPOT_NOTICE: lambda client, node, f, now: _spot(client, node, _until(f, now), f.seconds),
    FaultKind.EXPORTER_GAP: lambda client, node, f, now: _mark(client, node, GAP, _until(f, now)),
}
