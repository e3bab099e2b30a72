"""What kubectl get prints for built-in kinds, cell by cell.

Column names and order come from the generated table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sandbox.api.meta.objects import Obj, dig, parse_time
from sandbox.api.printers.ages import age
from sandbox.api.printers.podstate import pod_ready, pod_restarts, pod_status

Cell = Callable[[Obj, datetime], Any]
NONE = "<none>"


def _at(*path: str | int, default: Any = NONE) -> Cell:
    return lambda obj, _now: dig(obj, *path, default=default) or default


def _number(*path: str) -> Cell:
    return lambda obj, _now: dig(obj, *path, default=0)


def _since(*path: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        text = dig(obj, *path)
        return age(parse_time(text), now) if text else "<unknown>"

    return cell


def _containers(field: str, *template: str) -> Cell:
    return lambda obj, _now: ",".join(
        str(item.get(field, "")) for item in dig(obj, *template, "containers", default=[])
    )


def _selector_text(selector: Obj | None) -> str:
    if not selector:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for item in selector.get("matchExpressions") or ():
        values = ",".join(item.get("values") or ())
        forms = {
            "In": f"{item['key']} in ({values})",
            "NotIn": f"{item['key']} notin ({values})",
            "Exists": item["key"],
            "DoesNotExist": f"!{item['key']}",
        }
        parts.append(forms[item["operator"]])
    return ",".join(parts) or NONE


def _selector(*path: str) -> Cell:
    return lambda obj, _now: _selector_text(dig(obj, *path))


def _map_text(*path: str) -> Cell:
    return lambda obj, _now: (
        ",".join(f"{key}={value}" for key, value in sorted(dig(obj, *path, default={}).items())) or NONE
    )


def _pod_ip(obj: Obj, _now: datetime) -> str:
    return str(dig(obj, "status", "podIP", default=NONE))


def _gates(obj: Obj, _now: datetime) -> str:
    gates = dig(obj, "spec", "readinessGates", default=[])
    true = {
        item["type"] for item in dig(obj, "status", "conditions", default=[]) if item.get("status") == "True"
    }
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}" if gates else NONE


def _node_status(obj: Obj, _now: datetime) -> str:
    ready = next(
        (item for item in dig(obj, "status", "conditions", default=[]) if item["type"] == "Ready"), None
    )
    text = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if dig(obj, "spec", "unschedulable") else text


def _roles(obj: Obj, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    return (
        ",".join(
            sorted(
                key.removeprefix(prefix)
                for key in obj["metadata"].get("labels") or {}
                if key.startswith(prefix)
            )
        )
        or NONE
    )


def _address(kind: str) -> Cell:
    return lambda obj, _now: next(
        (item["address"] for item in dig(obj, "status", "addresses", default=[]) if item["type"] == kind),
        NONE,
    )


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim(field: str) -> Cell:
    def cell(obj: Obj, _now: datetime) -> str:
        bound = dig(obj, "spec", "volumeName")
        if not bound:
            return ""
        if field == "modes":
            return ",".join(_MODES[mode] for mode in dig(obj, "status", "accessModes", default=[]))
        return str(dig(obj, "status", "capacity", "storage", default=""))

    return cell


def _claim_status(obj: Obj, _now: datetime) -> str:
    return (
        "Terminating"
        if obj["metadata"].get("deletionTimestamp")
        else str(dig(obj, "status", "phase", default=""))
    )


def _quota(prefix: str) -> Cell:
    """Requests hold everything that is not a limit."""

    def cell(obj: Obj, _now: datetime) -> str:
        hard, used = dig(obj, "status", "hard", default={}), dig(obj, "status", "used", default={})
        names = sorted(name for name in hard if name.startswith("limits.") is (prefix == "limits."))
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _ports(obj: Obj, _now: datetime) -> str:
    ports = dig(obj, "spec", "ports", default=[])
    return (
        ",".join(
            f"{port['port']}:{port['nodePort']}/{port['protocol']}"
            if port.get("nodePort")
            else f"{port['port']}/{port['protocol']}"
            for port in ports
        )
        or NONE
    )


def _deployment_ready(obj: Obj, _now: datetime) -> str:
    return f"{dig(obj, 'status', 'readyReplicas', default=0)}/{dig(obj, 'spec', 'replicas', default=1)}"


def _job_status(obj: Obj, _now: datetime) -> str:
    true = {item["type"] for item in dig(obj, "status", "conditions", default=[]) if item["status"] == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    return next((name for name in ("FailureTarget", "SuccessCriteriaMet") if name in true), "Running")


def _job_completions(obj: Obj, _now: datetime) -> str:
    done, wanted = dig(obj, "status", "succeeded", default=0), dig(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = dig(obj, "spec", "parallelism", default=0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(obj: Obj, now: datetime) -> str:
    start, end = dig(obj, "status", "startTime"), dig(obj, "status", "completionTime")
    if not start:
        return ""
    return age(parse_time(start), parse_time(end) if end else now)


def _subjects(kind: str) -> Cell:
    def cell(obj: Obj, _now: datetime) -> str:
        own = [item for item in obj.get("subjects") or () if item["kind"] == kind]
        return ", ".join(
            f"{item['namespace']}/{item['name']}" if kind == "ServiceAccount" else item["name"]
            for item in own
        )

    return cell


def _role(obj: Obj, _now: datetime) -> str:
    return f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"


def _event_object(obj: Obj, _now: datetime) -> str:
    involved = obj.get("involvedObject", {})
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_seen(field: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        text = dig(obj, "series", "lastObservedTime") if field == "lastTimestamp" else None
        text = text or obj.get(field) or obj.get("eventTime")
        return age(parse_time(text), now) if text else "<unknown>"

    return cell


def _event_source(obj: Obj, _now: datetime) -> str:
    parts = [dig(obj, "source", "component"), dig(obj, "source", "host")]
    return ", ".join(part for part in parts if part) or str(obj.get("reportingComponent", ""))


def _claim_state(obj: Obj, _now: datetime) -> str:
    states = [
        word
        for word, found in (
            ("deleted", obj["metadata"].get("deletionTimestamp")),
            ("allocated", dig(obj, "status", "allocation")),
            ("reserved", dig(obj, "status", "reservedFor")),
        )
        if found
    ]
    if not dig(obj, "status", "allocation") and not obj["metadata"].get("deletionTimestamp"):
        states.append("pending")
    return ",".join(states)


def _policy_target(obj: Obj, _now: datetime) -> str:
    return _selector_text(dig(obj, "spec", "podSelector"))


def _count(*path: str) -> Cell:
    return lambda obj, _now: len(dig(obj, *path, default=()))


def _secret_size(obj: Obj, _now: datetime) -> int:
    return len(obj.get("data") or {})


def _config_size(obj: Obj, _now: datetime) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _available(obj: Obj, _now: datetime) -> str:
    found = next(
        (item for item in dig(obj, "status", "conditions", default=[]) if item["type"] == "Available"), None
    )
    if found is None:
        return "Unknown"
    return "True" if found["status"] == "True" else f"{found['status']} ({found.get('reason', '')})"


def _service_of(obj: Obj, _now: datetime) -> str:
    service = dig(obj, "spec", "service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def _owner(obj: Obj, _now: datetime) -> str:
    owner = next(
        (item for item in obj["metadata"].get("ownerReferences") or () if item.get("controller")), None
    )
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return (
        f"{owner['kind'].lower()}.{group}/{owner['name']}"
        if group
        else f"{owner['kind'].lower()}/{owner['name']}"
    )


_TEMPLATE = ("spec", "template", "spec")
_WORKLOAD: dict[str, Cell] = {
    "Containers": _containers("name", *_TEMPLATE),
    "Images": _containers("image", *_TEMPLATE),
    "Selector": _selector("spec", "selector"),
}
_BINDING: dict[str, Cell] = {
    "Role": _role,
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}
_INFO = ("status", "nodeInfo")

CELLS: dict[str, dict[str, Cell]] = {
    "pods": {
        "Ready": pod_ready,
        "Status": pod_status,
        "Restarts": lambda obj, now: pod_restarts(obj, now, age),
        "IP": _pod_ip,
        "Node": _at("spec", "nodeName"),
        "Nominated Node": _at("status", "nominatedNodeName"),
        "Readiness Gates": _gates,
    },
    "namespaces": {"Status": _at("status", "phase", default="")},
    "nodes": {
        "Status": _node_status,
        "Roles": _roles,
        "Version": _at(*_INFO, "kubeletVersion", default=""),
        "Internal-IP": _address("InternalIP"),
        "External-IP": _address("ExternalIP"),
        "OS-Image": _at(*_INFO, "osImage", default="<unknown>"),
        "Kernel-Version": _at(*_INFO, "kernelVersion", default="<unknown>"),
        "Container-Runtime": _at(*_INFO, "containerRuntimeVersion", default="<unknown>"),
    },
    "configmaps": {"Data": _config_size},
    "secrets": {"Type": _at("type"), "Data": _secret_size},
    "services": {
        "Type": _at("spec", "type"),
        "Cluster-IP": _at("spec", "clusterIP"),
        "External-IP": _at("spec", "externalName"),
        "Port(s)": _ports,
        "Selector": _map_text("spec", "selector"),
    },
    "persistentvolumeclaims": {
        "Status": _claim_status,
        "Volume": _at("spec", "volumeName", default=""),
        "Capacity": _claim("capacity"),
        "Access Modes": _claim("modes"),
        "StorageClass": _at("spec", "storageClassName", default=""),
        "VolumeAttributesClass": _at("spec", "volumeAttributesClassName", default="<unset>"),
        "VolumeMode": _at("spec", "volumeMode", default=""),
    },
    "resourcequotas": {"Request": _quota(""), "Limit": _quota("limits.")},
    "events": {
        "Last Seen": _event_seen("lastTimestamp"),
        "Type": _at("type", default=""),
        "Reason": _at("reason", default=""),
        "Object": _event_object,
        "Subobject": _at("involvedObject", "fieldPath", default=""),
        "Source": _event_source,
        "Message": lambda obj, _now: str(obj.get("message", "")).strip(),
        "First Seen": _event_seen("firstTimestamp"),
        "Count": lambda obj, _now: str(obj.get("count") or 1),
    },
    "deployments.apps": {
        **_WORKLOAD,
        "Ready": _deployment_ready,
        "Up-to-date": _number("status", "updatedReplicas"),
        "Available": _number("status", "availableReplicas"),
    },
    "replicasets.apps": {
        **_WORKLOAD,
        "Desired": _number("spec", "replicas"),
        "Current": _number("status", "replicas"),
        "Ready": _number("status", "readyReplicas"),
    },
    "statefulsets.apps": {**_WORKLOAD, "Ready": _deployment_ready},
    "controllerrevisions.apps": {"Controller": _owner, "Revision": _number("revision")},
    "jobs.batch": {
        **_WORKLOAD,
        "Status": _job_status,
        "Completions": _job_completions,
        "Duration": _job_duration,
    },
    "networkpolicies.networking.k8s.io": {"Pod-Selector": _policy_target},
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "storageclasses.storage.k8s.io": {
        "Provisioner": _at("provisioner"),
        "ReclaimPolicy": _at("reclaimPolicy"),
        "VolumeBindingMode": _at("volumeBindingMode"),
        "AllowVolumeExpansion": lambda obj, _now: str(bool(obj.get("allowVolumeExpansion"))).lower(),
    },
    "priorityclasses.scheduling.k8s.io": {
        "Value": _number("value"),
        "Global-Default": lambda obj, _now: bool(obj.get("globalDefault")),
        "PreemptionPolicy": _at("preemptionPolicy"),
    },
    "leases.coordination.k8s.io": {"Holder": _at("spec", "holderIdentity", default="")},
    "resourceclaims.resource.k8s.io": {"State": _claim_state},
    "resourceslices.resource.k8s.io": {
        "Node": _at("spec", "nodeName"),
        "Driver": _at("spec", "driver"),
        "Pool": _at("spec", "pool", "name"),
    },
    "apiservices.apiregistration.k8s.io": {"Service": _service_of, "Available": _available},
    "validatingadmissionpolicies.admissionregistration.k8s.io": {
        "Validations": _count("spec", "validations"),
        "ParamKind": _at("spec", "paramKind", "kind", default="<unset>"),
    },
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": {
        "PolicyName": _at("spec", "policyName"),
        "ParamRef": _at("spec", "paramRef", "name", default="<unset>"),
    },
}
