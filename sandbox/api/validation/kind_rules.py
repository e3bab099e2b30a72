"""Dependent defaults and rules of small kinds: services, namespaces, limit ranges, events, bindings,
definitions, claims.
"""

from __future__ import annotations

from sandbox.api.meta.errors import FieldError, invalid_value, required, unsupported
from sandbox.api.meta.objects import Obj, dig

Errors = list[FieldError]
_RBAC = "rbac.authorization.k8s.io"
_PORTS = range(1, 65_536)


def default_service(obj: Obj) -> None:
    """A port leads to the same port unless told otherwise."""
    for port in dig(obj, "spec", "ports", default=[]):
        port.setdefault("targetPort", port.get("port"))


def default_namespace(obj: Obj) -> None:
    """Selectors can name a namespace by this label."""
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")


def default_limit_range(obj: Obj) -> None:
    """For containers: the limit defaults to the maximum, the request to the limit, else to the minimum."""
    for item in dig(obj, "spec", "limits", default=[]):
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        for key, value in (("default", limits), ("defaultRequest", requests)):
            if value:
                item[key] = value


def complete_event(obj: Obj) -> None:
    """Fields that an event always carries."""
    for key in ("eventTime", "firstTimestamp", "lastTimestamp"):
        obj.setdefault(key, None)
    for key in ("reportingComponent", "reportingInstance"):
        obj.setdefault(key, "")


def default_node(obj: Obj) -> None:
    """All of a node's capacity can be used unless it says less."""
    status = obj.get("status", {})
    if status.get("capacity"):
        status.setdefault("allocatable", dict(status["capacity"]))


def default_binding(obj: Obj) -> None:
    """The API group of a role and of users and groups."""
    if obj.get("roleRef"):
        obj["roleRef"].setdefault("apiGroup", _RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


def default_definition(obj: Obj) -> None:
    """Singular and list names follow from the kind."""
    names = dig(obj, "spec", "names", default={})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


def validate_service(obj: Obj) -> Errors:
    """Ports are in range."""
    found: Errors = []
    for index, port in enumerate(dig(obj, "spec", "ports", default=[])):
        for key in ("port", "targetPort"):
            value = port.get(key)
            if isinstance(value, int) and value not in _PORTS:
                found.append(
                    invalid_value(
                        f"spec.ports[{index}].{key}", value, "must be between 1 and 65535, inclusive"
                    )
                )
    return found


def validate_role(obj: Obj) -> Errors:
    """Every rule allows something, on resources of some group or (cluster roles only) on plain paths."""
    found: Errors = []
    for index, rule in enumerate(obj.get("rules") or ()):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            found.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if urls and obj["kind"] == "Role":
            why = "namespaced rules cannot apply to non-resource URLs"
            found.append(invalid_value(f"{path}.nonResourceURLs", urls, why))
        elif not urls and not rule.get("resources"):
            found.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return found


def validate_definition(obj: Obj) -> Errors:
    """A definition is named after its plural and group, and every version has a schema."""
    spec, found = obj.get("spec", {}), []
    wanted = f"{dig(spec, 'names', 'plural', default='')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != wanted:
        found.append(
            invalid_value(
                "metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group'
            )
        )
    for index, version in enumerate(spec.get("versions") or ()):
        if not dig(version, "schema", "openAPIV3Schema"):
            found.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    return found


def validate_event(obj: Obj) -> Errors:
    """An event lies in the namespace of what it is about."""
    about, space = dig(obj, "involvedObject", "namespace", default=""), obj["metadata"].get("namespace")
    if about and about != space:
        return [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
    return []


def validate_binding(obj: Obj) -> Errors:
    """A role reference names a role or a cluster role."""
    kind = dig(obj, "roleRef", "kind", default="")
    return (
        []
        if kind in ("Role", "ClusterRole")
        else [unsupported("roleRef.kind", kind, ("Role", "ClusterRole"))]
    )


def validate_token_secret(obj: Obj) -> Errors:
    """A token secret names its account."""
    path = "kubernetes.io/service-account.name"
    if obj.get("type") == "kubernetes.io/service-account-token" and not dig(
        obj, "metadata", "annotations", path
    ):
        return [required(f"metadata.annotations[{path}]")]
    return []


def validate_claim(obj: Obj) -> Errors:
    """A volume claim names an access mode and a size."""
    found: Errors = []
    if not dig(obj, "spec", "accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    if not dig(obj, "spec", "resources", "requests", "storage"):
        found.append(required("spec.resources[storage]"))
    return found
