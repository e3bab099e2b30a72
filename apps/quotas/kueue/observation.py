"""What the cluster's objects say about quota: trimmed bodies of the mirror in, whole devices out.

Pure. Reads Kueue v0.19 (v1beta2); writes and decides nothing.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from apps.cluster.objects.quantities import whole_number
from apps.quotas.specs import PLUGIN_PREFIX, RESOURCE_PREFIX

Body = Mapping[str, Any]


def reserved(cluster_queue: Body) -> Counter[str]:
    """Devices by resource name that a ClusterQueue has reserved, over all flavors (`flavorsReservation`)."""
    found: Counter[str] = Counter()
    for flavor in cluster_queue.get("status", {}).get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            if _is_device(resource["name"]):
                found[resource["name"]] += whole_number(resource.get("total", "0"))
    return found


def requested(workload: Body) -> Counter[str]:
    """Devices by resource name that a Kueue Workload asks for: the sum over pod sets of count x containers'
    limits.
    """
    found: Counter[str] = Counter()
    for pod_set in workload.get("spec", {}).get("podSets") or ():
        for container in pod_set.get("resources") or ():
            asked = {**(container.get("requests") or {}), **(container.get("limits") or {})}
            for name, amount in asked.items():
                if _is_device(name):
                    found[name] += pod_set.get("count", 1) * whole_number(amount)
    return found


def pods(workload: Body) -> int:
    """How many pods a Kueue Workload asks for: the sum over its pod sets."""
    return sum(int(each.get("count", 1)) for each in workload.get("spec", {}).get("podSets") or ())


def limit_of(pod: Body, resource_name: str) -> int:
    """How many of a resource a pod's containers hold; extended resources have request and limit alike."""
    containers = pod.get("spec", {}).get("containers") or ()
    limits = ((container.get("resources") or {}).get("limits") or {} for container in containers)
    return sum(whole_number(each.get(resource_name, 0)) for each in limits)


def _is_device(name: str) -> bool:
    """An offer's own name, or one that a device plugin gave; cpu and memory are none."""
    return name.startswith((RESOURCE_PREFIX, PLUGIN_PREFIX))


def is_active(cluster_queue: Body) -> tuple[bool, str, str]:
    """Whether Kueue admits from it, with the reason and Kueue's own words (condition Active)."""
    for condition in cluster_queue.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Active":
            return condition["status"] == "True", condition.get("reason", ""), condition.get("message", "")
    return False, "Unknown", "Kueue has not looked at the queue yet."
