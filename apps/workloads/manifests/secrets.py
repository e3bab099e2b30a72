"""The Secret of a workload, and how its pods name what is in it. Pure.

Values are text. Files are readable by the pod's group alone; the kubelet writes a replaced one anew within
about a minute, while a variable keeps what it had when its container started.
"""

import base64
from collections.abc import Mapping
from typing import Any

from apps.cluster.objects import names
from apps.cluster.specs import ObjectRef, Observed
from apps.workloads.secret_specs import NOT_SHOWN, SECRETS_PATH, Into
from apps.workloads.specs import PlacementSpec

SUFFIX, TYPE = "-allotment-secrets", "allotment.dev/secrets"
"""By its type the chart's policy knows what the product may write, by its name what pods of others may not
name.
"""
VOLUME = "secrets-of-the-workload"
"""Longer than the name of any volume that can be asked for."""
READABLE = 0o440


def render(place: PlacementSpec) -> list[dict[str, Any]]:
    """The Secret; nothing where there is none.

    RULE: what a running pod names stays a key, empty once it was removed: without the key its container could
    not be started again.
    """
    shown = {key.name: NOT_SHOWN for key in place.secrets}
    values = shown if place.secret_values is None else place.secret_values
    if not values:
        return []
    data = {name: base64.b64encode(values[name].encode()).decode() for name in sorted(values)}
    metadata = {
        "name": name_of(place),
        "namespace": place.namespace,
        "labels": names.owner_labels(owner="workload", uid=place.workload_id, tenant=place.tenant),
        "annotations": {names.ANNOTATION_GENERATION: str(place.generation)},
    }
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE, "data": data}]


def of(observed: Mapping[ObjectRef, Observed]) -> dict[ObjectRef, Observed]:
    """Of what is in the cluster, the Secret."""
    return {ref: seen for ref, seen in observed.items() if ref.kind == "Secret" and ref.name.endswith(SUFFIX)}


def name_of(place: PlacementSpec) -> str:
    """The name of the Secret."""
    return f"{place.object_name}{SUFFIX}"


def over(plain: Mapping[str, str], place: PlacementSpec) -> list[dict[str, Any]]:
    """The variables of a container. RULE: a secret goes before a plain value of the same name."""
    found: dict[str, dict[str, Any]] = {name: {"name": name, "value": plain[name]} for name in plain}
    for key in place.secrets:
        if key.into is Into.ENV:
            ref = {"name": name_of(place), "key": key.name}
            found[key.name] = {"name": key.name, "valueFrom": {"secretKeyRef": ref}}
    return [found[name] for name in sorted(found)]


def volumes(place: PlacementSpec) -> list[dict[str, Any]]:
    """The volume of those that are files."""
    items = [{"key": key.name, "path": key.name} for key in place.secrets if key.into is Into.FILE]
    secret = {"secretName": name_of(place), "defaultMode": READABLE, "items": items}
    return [{"name": VOLUME, "secret": secret}] if items else []


def mounts(place: PlacementSpec) -> list[dict[str, Any]]:
    """Where they are in the container."""
    mount = {"name": VOLUME, "mountPath": SECRETS_PATH, "readOnly": True}
    return [mount] if any(key.into is Into.FILE for key in place.secrets) else []
