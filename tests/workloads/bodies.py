"""Objects as the API server sends them, made plainly; what a test does not name is as on a fresh one."""

from typing import Any

from apps.workloads.manifests.pods import TEMPLATE

Body = dict[str, Any]
AT = "2026-11-20T09:00:00Z"


def condition(name: str, status: str = "True", *, reason: str = "", message: str = "", at: str = AT) -> Body:
    return {
        "type": name,
        "status": status,
        "reason": reason or name,
        "message": message,
        "lastTransitionTime": at,
    }


def controller(
    kind: str = "StatefulSet", *conditions: Body, uid: str = "c1", template: str = "", **status: Any
) -> Body:
    return {
        "kind": kind,
        "metadata": {
            "name": "w", "namespace": "ns", "uid": uid, "creationTimestamp": AT,
            "annotations": {TEMPLATE: template},
        },
        "status": {"conditions": list(conditions), **status},
    }  # fmt: skip


def owned_by(uid: str) -> list[Body]:
    return [{"apiVersion": "v1", "kind": "Any", "name": "o", "uid": uid, "controller": True}]


def queued(*conditions: Body, owner: str = "c1", **spec: Any) -> Body:
    return {
        "kind": "Workload",
        "metadata": {"name": "statefulset-w-1", "namespace": "ns", "uid": "k1", "creationTimestamp": AT,
                     "ownerReferences": owned_by(owner)},
        "spec": {"queueName": "gpu", "priority": 0, "active": True, **spec},
        "status": {"conditions": list(conditions)},
    }  # fmt: skip


def waiting(message: str = "1 more needed") -> Body:
    return queued(condition("QuotaReserved", "False", reason="Pending", message=message))


def admitted(**usage: Any) -> Body:
    body = queued(condition("QuotaReserved"), condition("Admitted"))
    body["status"]["admission"] = {
        "clusterQueue": "q",
        "podSetAssignments": [{"name": "main", "resourceUsage": usage}],
    }
    return body


def pod(
    *conditions: Body,
    node: str = "gpu-01",
    phase: str = "Running",
    uid: str = "p1",
    owner: str = "c1",
    **status: Any,
) -> Body:
    return {
        "kind": "Pod",
        "metadata": {"name": "w-0", "namespace": "ns", "uid": uid, "creationTimestamp": AT,
                     "ownerReferences": owned_by(owner)},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": list(conditions), "startTime": AT, **status},
    }  # fmt: skip


def ready_pod(**given: Any) -> Body:
    return pod(condition("Ready"), **given)


def claim(
    *devices: str, owner: str = "p1", at: str = AT, uid: str = "r1", driver: str = "gpu.nvidia.com"
) -> Body:
    results = [
        {"driver": driver, "pool": d.split("/")[0], "device": d.split("/")[1], "request": "r"}
        for d in devices
    ]
    allocation = (
        {"allocation": {"devices": {"results": results}, "allocationTimestamp": at}} if devices else {}
    )
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "w-0-claim", "namespace": "ns", "uid": uid, "creationTimestamp": AT,
                     "ownerReferences": owned_by(owner)},
        "status": allocation,
    }  # fmt: skip
