"""Extended resources served by DRA: from a pod's limits to the special claim the scheduler makes.

Pure. A name is DRA's when the node does not list it and a DeviceClass claims it (newest class first), or by
the implicit name deviceclass.resource.kubernetes.io/<class>.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandbox.api.meta.objects import Obj
from sandbox.api.meta.quantity import parse

IMPLICIT = "deviceclass.resource.kubernetes.io/"
CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
_NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")


def is_extended(resource: str) -> bool:
    """Whether a resource name is an extended one: qualified, and not of Kubernetes itself."""
    return resource not in _NATIVE and not resource.startswith("hugepages-") and "/" in resource


def class_for(resource: str, classes: Iterable[Obj]) -> str:
    """The DeviceClass that serves an extended resource, "" for none."""
    known = list(classes)
    if resource.startswith(IMPLICIT):
        name = resource.removeprefix(IMPLICIT)
        return name if any(c["metadata"]["name"] == name for c in known) else ""
    serving = [c for c in known if c["spec"].get("extendedResourceName") == resource]
    newest = sorted(serving, key=lambda c: c["metadata"]["name"])
    newest.sort(key=lambda c: str(c["metadata"].get("creationTimestamp", "")), reverse=True)
    return str(newest[0]["metadata"]["name"]) if newest else ""


def container_requests(pod: Obj) -> list[tuple[int, str, str, int]]:
    """(container index, container name, resource, count) of every extended resource the pod asks for."""
    found = []
    for index, container in enumerate(pod["spec"].get("containers") or ()):
        resources = container.get("resources") or {}
        asked: Mapping[str, str] = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name in sorted(filter(is_extended, asked)):
            count = int(parse(str(asked[name])))
            if count:
                found.append((index, container["name"], name, count))
    return found


def special_claim(
    pod: Obj, allocatable: Mapping[str, str], classes: Mapping[str, Obj]
) -> tuple[Obj | None, list[Obj]]:
    """The claim for the names DRA serves on a node with this allocatable, and the request mappings.

    None when the node's device plugin, or nobody, serves what the pod asks for.
    """
    requests: list[Obj] = []
    mappings: list[Obj] = []
    numbers: dict[int, int] = {}
    for index, container, resource, count in container_requests(pod):
        device_class = "" if resource in allocatable else class_for(resource, classes.values())
        if not device_class:
            continue
        name = f"container-{index}-request-{numbers.setdefault(index, 0)}"
        numbers[index] += 1
        exact = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
        requests.append({"name": name, "exactly": exact})
        mappings.append({"containerName": container, "resourceName": resource, "requestName": name})
    if not requests:
        return None, []
    meta = pod["metadata"]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{meta['name']}-extended-resources-",
            "namespace": meta["namespace"],
            "annotations": {CLAIM_ANNOTATION: "true"},
            "ownerReferences": [pod_owner(pod)],
        },
        "spec": {"devices": {"requests": requests}},
    }
    return claim, mappings


def pod_owner(pod: Obj) -> Obj:
    """The ownerReference generated claims carry: controller, without blocking the pod's deletion."""
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
