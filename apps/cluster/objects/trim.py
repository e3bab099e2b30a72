"""What the mirror keeps of each kind: all that status, explain, inventory and metering read, nothing else.
Pure.

Data of a ConfigMap and the pod templates inside other objects never reach the database.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from apps.cluster.objects.names import LABEL_CORES
from apps.cluster.objects.queueing import CORES_OF
from apps.cluster.specs import Body

Trim = Callable[[Mapping[str, Any]], Body]

_METADATA = (
    "name", "namespace", "uid", "labels", "annotations", "ownerReferences",
    "creationTimestamp", "deletionTimestamp", "finalizers",
)  # fmt: skip
_NOISE = ("kubectl.kubernetes.io/last-applied-configuration", "kwok.x-k8s.io/", "node.alpha.kubernetes.io/")
_POD_STATUS = (
    "phase", "reason", "message", "startTime", "conditions", "containerStatuses", "initContainerStatuses",
)  # fmt: skip
_CONTAINER = ("name", "image", "resources")


def metadata(body: Mapping[str, Any]) -> Body:
    """Names, labels, annotations, owners and times; without managedFields and versions, which have
    columns.
    """
    whole = body.get("metadata", {})
    kept = {key: whole[key] for key in _METADATA if whole.get(key)}
    if "annotations" in kept:
        kept["annotations"] = {k: v for k, v in kept["annotations"].items() if not k.startswith(_NOISE)}
    return kept


def head(body: Mapping[str, Any]) -> Body:
    """Metadata alone: for kinds whose content nobody reads from the mirror."""
    return {"metadata": metadata(body)}


def pick(*, spec: tuple[str, ...] = (), status: tuple[str, ...] = (), top: tuple[str, ...] = ()) -> Trim:
    """Metadata and the named fields of spec, status and the top level."""

    def trim(body: Mapping[str, Any]) -> Body:
        kept = head(body) | _only(body, top)
        for part, fields in (("spec", spec), ("status", status)):
            if fields:
                kept[part] = _only(body.get(part) or {}, fields)
        return kept

    return trim


def nothing(_kept: Mapping[str, Any]) -> Body:
    """No part of what is kept."""
    return {}


def content(kept: Mapping[str, Any]) -> Body:
    """All that is kept but the metadata."""
    return {key: value for key, value in kept.items() if key != "metadata"}


def outcome(kept: Mapping[str, Any]) -> Body:
    """What an object came to; not its counts."""
    return _only(kept.get("status") or {}, ("conditions", "startTime", "completionTime"))


def job_outcome(kept: Mapping[str, Any]) -> Body:
    """As `outcome`, and which items of an array have ended; not how many pods it has."""
    return outcome(kept) | _only(kept.get("status") or {}, ("completedIndexes", "failedIndexes"))


def pod_judged(kept: Mapping[str, Any]) -> Body:
    """All of a pod but its gates: as the last one goes, its condition PodScheduled changes too."""
    return content(kept) | {"spec": {k: v for k, v in kept["spec"].items() if k != "schedulingGates"}}


def workload_judged(kept: Mapping[str, Any]) -> Body:
    """All of a Workload but Kueue's count of pods that are ready: what runs is judged by the pods."""
    conditions = [each for each in kept["status"].get("conditions") or () if each["type"] != "PodsReady"]
    return content(kept) | {"status": {**kept["status"], "conditions": conditions}}


def whole(body: Mapping[str, Any]) -> Body:
    """Everything but the noise of metadata: small objects that are all meaning."""
    rest = {k: v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata")}
    return head(body) | rest


def pod(body: Mapping[str, Any]) -> Body:
    """Where it runs, how its containers fare, and what they ask for; not their environment."""
    spec = body.get("spec") or {}
    kept = head(body)
    kept["spec"] = _only(
        spec, ("nodeName", "schedulingGates", "priority", "resourceClaims", "serviceAccountName")
    )
    kept["spec"]["containers"] = [_only(c, _CONTAINER) for c in spec.get("containers", [])]
    kept["status"] = _only(body.get("status") or {}, _POD_STATUS)
    return kept


def kueue_workload(body: Mapping[str, Any]) -> Body:
    """What it asks for, in which queue, and Kueue's whole status; pod templates cut down to their
    requests.
    """
    spec = body.get("spec") or {}
    kept = head(body)
    kept["spec"] = _only(spec, ("queueName", "priority", "priorityClassRef", "active"))
    kept["spec"]["podSets"] = [
        _only(pod_set, ("name", "count", "minCount")) | _asked(pod_set.get("template") or {})
        for pod_set in spec.get("podSets", [])
    ]
    kept["status"] = body.get("status") or {}
    return kept


def _asked(template: Mapping[str, Any]) -> Body:
    """What the containers ask for; of a pod without a device, on which flavor's cores."""
    spec = template.get("spec") or {}
    resources = [c.get("resources", {}) for c in spec.get("containers", [])]
    flavor = _cores_of(spec)
    return {"resources": resources} | ({CORES_OF: flavor} if flavor else {})


def _cores_of(spec: Mapping[str, Any]) -> str:
    """RULE: told by the pod's spec, which Kueue keeps of every kind; of StatefulSets, Deployments and pods it
    drops the template's labels (v0.19).
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        for told in preferred["preference"].get("matchExpressions") or ():
            if told["key"] == LABEL_CORES and told.get("values"):
                return str(told["values"][0])
    return ""


def released(before: Mapping[str, Any], after: Mapping[str, Any], now: datetime) -> Body:
    """What a ResourceClaim held until `now`: the server clears the allocation before it deletes the claim,
    and metering may read the mirror later than that.
    """
    held = (before.get("status") or {}).get("allocation")
    if held and not (after.get("status") or {}).get("allocation"):
        return {"released": {"allocation": held, "at": now.isoformat()}}
    return {"released": before["released"]} if "released" in before else {}


def node(body: Mapping[str, Any]) -> Body:
    """Labels, taints, room and health. Heartbeat times are cut, or every node would change all the time."""
    kept = pick(spec=("taints", "unschedulable"), status=("capacity", "allocatable"))(body)
    conditions = (body.get("status") or {}).get("conditions", [])
    kept["status"]["conditions"] = [
        {k: v for k, v in entry.items() if k != "lastHeartbeatTime"} for entry in conditions
    ]
    return kept


def release(body: Mapping[str, Any]) -> Body:
    """A HelmRelease: which generation Flux has seen, and what it says; not the values."""
    kept = pick(spec=("suspend",), status=("conditions", "observedGeneration", "history"))(body)
    kept["metadata"] |= _only(body.get("metadata", {}), ("generation",))
    kept["status"]["history"] = [
        _only(each, ("chartVersion", "status", "lastDeployed"))
        for each in kept["status"].get("history", [])[:1]
    ]
    return kept


def _only(source: Mapping[str, Any], keys: tuple[str, ...]) -> Body:
    return {key: source[key] for key in keys if key in source}
