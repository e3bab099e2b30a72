"""What single kinds do differently on create and update: coded defaults, initial status, names, immutable
fields. Generic rules are in `registry`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox.api.meta.errors import FieldError, field_forbidden, invalid_value, required
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.validation import device_rules, kind_rules, metadata_rules, podspecs
from sandbox.api.validation.workload_rules import (
    default_deployment,
    default_job,
    default_statefulset,
    validate_job,
    validate_selector,
    validate_statefulset,
)
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

Errors = list[FieldError]
BINDINGS, CLUSTER_BINDINGS = (
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
)
_DNS_LABEL_NAMES = frozenset({"namespaces", "services"})
_FREE_NAMES = ("rbac.authorization.k8s.io",)
# Kinds whose status is kept on create: the creator (kubelet, driver) reports it.
_KEEPS_STATUS = frozenset(
    {"nodes", "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"}
)
# Fields that never change, by kind; "spec" stands for the whole of it.
_IMMUTABLE: dict[str, tuple[str, ...]] = {
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "jobs.batch": (
        "spec.completions",
        "spec.selector",
        "spec.completionMode",
        "spec.backoffLimitPerIndex",
    ),
    "resourceclaims.resource.k8s.io": ("spec",),
    "resourceclaimtemplates.resource.k8s.io": ("spec",),
    "resourceslices.resource.k8s.io": ("spec.driver", "spec.nodeName", "spec.pool.name"),
    "secrets": ("type",),
    "priorityclasses.scheduling.k8s.io": ("value",),
    "storageclasses.storage.k8s.io": ("provisioner", "parameters"),
}

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "pods": ("spec",),
    "deployments.apps": ("spec", "template", "spec"),
    "replicasets.apps": ("spec", "template", "spec"),
    "statefulsets.apps": ("spec", "template", "spec"),
    "jobs.batch": ("spec", "template", "spec"),
}
_DEFAULTS: dict[str, Callable[[Obj], None]] = {
    "deployments.apps": default_deployment,
    "statefulsets.apps": default_statefulset,
    "secrets": podspecs.default_secret,
    "services": kind_rules.default_service,
    "namespaces": kind_rules.default_namespace,
    "limitranges": kind_rules.default_limit_range,
    "nodes": kind_rules.default_node,
    BINDINGS: kind_rules.default_binding,
    CLUSTER_BINDINGS: kind_rules.default_binding,
    "customresourcedefinitions.apiextensions.k8s.io": kind_rules.default_definition,
}


def default_first(kind: Kind, obj: Obj) -> None:
    """Defaults that must see what was left out, before the schema's own."""
    if kind.key == "jobs.batch":
        default_job(obj)


def default(kind: Kind, obj: Obj) -> None:
    """Defaults that depend on other fields, added in place."""
    path = _TEMPLATES.get(kind.key)
    if path is not None:
        podspecs.default(dig(obj, *path, default={}), pod=kind.key == "pods")
    rule = _DEFAULTS.get(kind.key)
    if rule is not None:
        rule(obj)


def prepare_create(kind: Kind, obj: Obj, cluster: Cluster) -> None:
    """What the server sets on a new object: initial status, addresses, markers."""
    if kind.has_status() and kind.key not in _KEEPS_STATUS:
        obj.pop("status", None)
    first = _CREATE.get(kind.key)
    if first is not None:
        first(obj, cluster)


def _namespace(obj: Obj, cluster: Cluster) -> None:
    del cluster
    obj["spec"] = {**obj.get("spec", {}), "finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def _service(obj: Obj, cluster: Cluster) -> None:
    spec = obj["spec"]
    if spec.get("type") != "ExternalName":
        spec.setdefault("ipFamilies", ["IPv4"])
        bare = spec.get("clusterIP") == "None" and "selector" not in spec
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if bare else "SingleStack")
    if spec.get("clusterIP") == "None":
        spec["clusterIPs"] = ["None"]
    elif not spec.get("clusterIP") and spec.get("type") != "ExternalName":
        taken = {dig(entry.obj, "spec", "clusterIP") for entry in cluster.store.entries("services")}
        draw = cluster.ids.random("clusterIP", obj["metadata"]["uid"])
        spec["clusterIP"] = next(
            ip
            for ip in (f"10.96.{draw.randint(1, 254)}.{draw.randint(1, 254)}" for _ in range(10_000))
            if ip not in taken
        )
        spec["clusterIPs"] = [spec["clusterIP"]]


def _claim(obj: Obj, cluster: Cluster) -> None:
    if "storageClassName" not in obj["spec"]:
        default_class = "storageclass.kubernetes.io/is-default-class"
        for entry in cluster.store.entries("storageclasses.storage.k8s.io"):
            if dig(entry.obj, "metadata", "annotations", default_class) == "true":
                obj["spec"]["storageClassName"] = entry.obj["metadata"]["name"]
    obj["metadata"].setdefault("finalizers", []).append("kubernetes.io/pvc-protection")
    obj["status"] = {"phase": "Pending"}


def _job(obj: Obj, cluster: Cluster) -> None:
    del cluster
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector") or "template" not in spec:
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    metadata.setdefault("labels", dict(labels))


def _event(obj: Obj, cluster: Cluster) -> None:
    del cluster
    kind_rules.complete_event(obj)


def _pod(obj: Obj, cluster: Cluster) -> None:
    podspecs.admit(obj, cluster.store)


_CREATE: dict[str, Callable[[Obj, Cluster], None]] = {
    "namespaces": _namespace,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "jobs.batch": _job,
    "pods": _pod,
    "events": _event,
}


def prepare_update(kind: Kind, new: Obj, old: Obj, subresource: str) -> None:
    """What the server keeps or recomputes on an update."""
    if kind.key == "events":
        kind_rules.complete_event(new)
    if kind.key == "services" and not subresource:
        for key in ("clusterIP", "clusterIPs"):
            if key in old["spec"]:
                new["spec"].setdefault(key, old["spec"][key])


def copy_unwritable(kind: Kind, subresource: str, old: Obj, new: Obj) -> None:
    """Undo what the endpoint does not write: status on the main one, all but status on the status one."""
    if subresource == "status":
        for key in set(old) | set(new):
            if key not in ("status", "metadata", "apiVersion", "kind"):
                _restore(new, old, key)
        if not kind.native or kind.key == "deployments.apps":
            managed = new["metadata"].get("managedFields")
            new["metadata"] = copy_of(old["metadata"])
            if managed:
                new["metadata"]["managedFields"] = managed
    elif kind.has_status() and subresource != "binding":
        _restore(new, old, "status")
    if kind.key == "namespaces" and subresource != "finalize":
        new["spec"] = copy_of(old.get("spec", {}))


def _restore(new: Obj, old: Obj, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def spec_changed(kind: Kind, old: Obj, new: Obj) -> bool:
    """Whether metadata.generation moves: by spec, or without one by all but metadata and status."""
    skip = (
        ("metadata", "status", "apiVersion", "kind")
        if kind.has_status() or kind.native
        else ("metadata", "apiVersion", "kind")
    )
    return any(old.get(key) != new.get(key) for key in set(old) | set(new) if key not in skip)


def name_errors(kind: Kind, name: str) -> Errors:
    """Errors of metadata.name by the kind's rule."""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if kind.group in _FREE_NAMES:
        bad = next((part for part in ("/", "%") if part in name), None)
        return [invalid_value("metadata.name", name, f"may not contain '{bad}'")] if bad else []
    label = kind.key in _DNS_LABEL_NAMES
    found = metadata_rules.name_error(name, label=label, limit=63 if label else 253)
    return [found] if found else []


def settle(kind: Kind, obj: Obj) -> None:
    """Dependent defaults again, after admission added to the object."""
    default(kind, obj)
    if kind.key == "pods":
        obj["status"]["qosClass"] = podspecs.qos_class(obj["spec"])


def validate(kind: Kind, obj: Obj) -> Errors:
    """Rules beyond the schema."""
    rule = _RULES.get(kind.key)
    return rule(obj) if rule is not None else []


def validate_change(kind: Kind, obj: Obj, old: Obj) -> Errors:
    """What may not change."""
    found: Errors = []
    for path in _IMMUTABLE.get(kind.key, ()):
        before, now = dig(old, *path.split(".")), dig(obj, *path.split("."))
        if before is not None and before != now:
            found.append(invalid_value(path, now, "field is immutable"))
    if kind.key == "services" and old["spec"].get("clusterIP") != obj["spec"].get("clusterIP"):
        found.append(
            invalid_value("spec.clusterIPs[0]", obj["spec"].get("clusterIPs"), "may not change once set")
        )
    if kind.key in (BINDINGS, CLUSTER_BINDINGS) and old.get("roleRef") != obj.get("roleRef"):
        shown = {
            {"apiGroup": "APIGroup"}.get(key, key.capitalize()): value
            for key, value in sorted(obj["roleRef"].items())
        }
        found.append(invalid_value("roleRef", shown, "cannot change roleRef"))
    return found + _frozen(kind, obj, old)


def _frozen(kind: Kind, obj: Obj, old: Obj) -> Errors:
    if kind.key not in ("configmaps", "secrets") or not old.get("immutable"):
        return []
    if not obj.get("immutable"):
        return [field_forbidden("immutable", "field is immutable when `immutable` is set")]
    return [
        field_forbidden(key, "field is immutable when `immutable` is set")
        for key in ("data", "binaryData")
        if obj.get(key) != old.get(key)
    ]


_RULES: dict[str, Callable[[Obj], Errors]] = {
    "deployments.apps": validate_selector,
    "replicasets.apps": validate_selector,
    "statefulsets.apps": validate_statefulset,
    "jobs.batch": validate_job,
    "pods": podspecs.validate,
    "services": kind_rules.validate_service,
    "persistentvolumeclaims": kind_rules.validate_claim,
    "roles.rbac.authorization.k8s.io": kind_rules.validate_role,
    "clusterroles.rbac.authorization.k8s.io": kind_rules.validate_role,
    "customresourcedefinitions.apiextensions.k8s.io": kind_rules.validate_definition,
    "events": kind_rules.validate_event,
    "secrets": kind_rules.validate_token_secret,
    BINDINGS: kind_rules.validate_binding,
    CLUSTER_BINDINGS: kind_rules.validate_binding,
    "deviceclasses.resource.k8s.io": device_rules.validate_class,
    "resourceslices.resource.k8s.io": device_rules.validate_slice,
}


def check_update(kind: Kind, new: Obj, old: Obj) -> None:
    """Whole-spec rules on updates by users; system components may go past them."""
    rule = {
        "pods": podspecs.check_update,
        "statefulsets.apps": podspecs.check_statefulset_update,
        "persistentvolumeclaims": podspecs.check_claim_update,
        "jobs.batch": podspecs.check_job_update,
    }.get(kind.key)
    if rule is not None:
        rule(new, old)
