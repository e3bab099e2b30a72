"""Pod templates and pods: dependent defaults, what the server sets on a new pod, and which fields may
change later.
"""

from __future__ import annotations

import base64
from typing import Any

from sandbox.api.meta import errors, quantity
from sandbox.api.meta.errors import FieldError, field_forbidden, invalid_value, required
from sandbox.api.meta.objects import Obj, dig, name_of
from sandbox.api.storage.store import Place, Store

Errors = list[FieldError]
_EVICTION_SECONDS = 300
_POD_MUTABLE = (
    "containers",
    "initContainers",
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
    "nodeSelector",
    "affinity",
    "ephemeralContainers",
)
_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_SET_RULE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def containers_of(spec: Obj) -> list[Obj]:
    """All containers of a pod spec, init containers first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def default(spec: Obj, *, pod: bool) -> None:
    """Pull policy by tag, deprecated account name, and for pods (not templates) requests from limits."""
    for container in containers_of(spec):
        image = str(container.get("image", ""))
        latest = image.endswith(":latest") or ":" not in image.rsplit("/", 1)[-1]
        container.setdefault("imagePullPolicy", "Always" if latest and "@" not in image else "IfNotPresent")
        resources = container.get("resources", {})
        if pod and resources.get("limits"):
            requests = resources.setdefault("requests", {})
            for name, amount in resources["limits"].items():
                requests.setdefault(name, amount)
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    if pod:
        spec.setdefault("enableServiceLinks", True)


def default_secret(obj: Obj) -> None:
    """Data must be base64 (400); stringData is written over it and vanishes."""
    for key, value in (obj.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except ValueError as problem:
            why = f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at key {key}'
            raise errors.bad_request(why) from problem
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data |= {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}


def admit(obj: Obj, store: Store) -> None:
    """What the built-in admission plugins add to every pod: account, tolerations, priority; and its first
    status.
    """
    spec = obj["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(item.get("key") == key for item in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_SECONDS,
                }
            )
    _prioritize(spec, obj, store)
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        obj["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _prioritize(spec: Obj, obj: Obj, store: Store) -> None:
    wanted = spec.get("priorityClassName")
    found = store.get("priorityclasses.scheduling.k8s.io", Place("", wanted)) if wanted else None
    if wanted and found is None:
        raise errors.forbidden("pods", "", name_of(obj), f"no PriorityClass with name {wanted} was found")
    spec["priority"] = int(found.obj["value"]) if found else 0
    spec.setdefault(
        "preemptionPolicy",
        found.obj.get("preemptionPolicy", "PreemptLowerPriority") if found else "PreemptLowerPriority",
    )


def qos_class(spec: Obj) -> str:
    """Guaranteed when every container limits cpu and memory at its request, BestEffort when none asks, else
    Burstable.
    """
    guaranteed, any_set = True, False
    for container in containers_of(spec):
        limits = dig(container, "resources", "limits", default={})
        requests = dig(container, "resources", "requests", default={})
        any_set = any_set or any(name in ("cpu", "memory") for name in (*limits, *requests))
        guaranteed = guaranteed and all(
            name in limits and requests.get(name, limits[name]) == limits[name] for name in ("cpu", "memory")
        )
    return "BestEffort" if not any_set else "Guaranteed" if guaranteed else "Burstable"


def validate(obj: Obj) -> Errors:
    """Containers of a pod."""
    return container_errors(obj.get("spec", {}), "spec")


def container_errors(spec: Obj, path: str, *, mounts: bool = True) -> Errors:
    """Images, mounts of volumes, requests over limits, extended resources whose request differs from the
    limit.
    """
    found: Errors = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            found += _container(container, place) + (_mounts(container, volumes, place) if mounts else [])
    return found


def _mounts(container: Obj, volumes: set[str | None], path: str) -> Errors:
    return [
        FieldError(
            "FieldValueNotFound",
            f"{path}.volumeMounts[{index}].name",
            f"Not found: {errors.show(mount.get('name'))}",
        )
        for index, mount in enumerate(container.get("volumeMounts") or ())
        if mount.get("name") not in volumes
    ]


def _container(container: Obj, path: str) -> Errors:
    found: Errors = [] if container.get("image") else [required(f"{path}.image")]
    limits = dig(container, "resources", "limits", default={})
    for name, amount in dig(container, "resources", "requests", default={}).items():
        where, limit = f"{path}.resources.requests", limits.get(name)
        if limit is None and "/" in name:
            why = "Limit must be set for non overcommitable resources"
            found.append(required(f"{path}.resources.limits", why))
        elif limit is not None and "/" in name and limit != amount:
            found.append(invalid_value(where, amount, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and quantity.parse(str(amount)) > quantity.parse(str(limit)):
            found.append(
                invalid_value(where, amount, f"must be less than or equal to {name} limit of {limit}")
            )
    return found


def _different(new: Any, old: Any, allowed: tuple[str, ...]) -> bool:
    return any(new.get(key) != old.get(key) for key in set(new) | set(old) if key not in allowed)


def check_update(new: Obj, old: Obj) -> None:
    """A pod's spec hardly changes: images, deadlines, more tolerations, fewer gates."""
    before, now = old.get("spec", {}), new.get("spec", {})
    gates = {gate["name"] for gate in now.get("schedulingGates") or ()} - {
        gate["name"] for gate in before.get("schedulingGates") or ()
    }
    if gates:
        problem = field_forbidden(
            "spec.schedulingGates",
            "only deletion is allowed, but found new scheduling gate " + f"'{min(gates)}'",
        )
        raise errors.invalid("Pod", "", name_of(new), [problem])
    bare = [[{**item, "image": ""} for item in containers_of(spec)] for spec in (before, now)]
    if _different(now, before, _POD_MUTABLE) or (bare[0] != bare[1]):
        why = (
            "pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        raise errors.invalid("Pod", "", name_of(new), [field_forbidden("spec", why)])


def check_statefulset_update(new: Obj, old: Obj) -> None:
    """Only a few fields of a StatefulSet's spec may change."""
    if _different(new.get("spec", {}), old.get("spec", {}), _SET_MUTABLE):
        raise errors.invalid("StatefulSet", "apps", name_of(new), [field_forbidden("spec", _SET_RULE)])


def check_claim_update(new: Obj, old: Obj) -> None:
    """A claim's spec is fixed but for a larger request and the class attributes."""
    if _different(
        new.get("spec", {}), old.get("spec", {}), ("resources", "volumeName", "volumeAttributesClassName")
    ):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
            " bound claims"
        )
        raise errors.invalid("PersistentVolumeClaim", "", name_of(new), [field_forbidden("spec", why)])


def check_job_update(new: Obj, old: Obj) -> None:
    """A job's template changes only while it is suspended and has not started."""
    fresh = old["spec"].get("suspend") and not dig(old, "status", "startTime")
    before, now = dig(old, "spec", "template", default={}), dig(new, "spec", "template", default={})
    if before != now and not fresh:
        raise errors.invalid(
            "Job", "batch", name_of(new), [invalid_value("spec.template", now, "field is immutable")]
        )
