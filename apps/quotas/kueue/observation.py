"""What the cluster's objects say about quota: trimmed bodies of the mirror in, whole devices out.

Pure. Reads Kueue v0.19 (v1beta2); writes and decides nothing.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from apps.cluster.mirror.rules.plugin_resources import is_gpu
from apps.cluster.objects import queueing
from apps.cluster.objects.quantities import cpu_millis, memory_bytes, whole_number
from apps.quotas.specs import CORE_MILLIS, CORES_PREFIX, RESOURCE_PREFIX

Body = Mapping[str, Any]


def reserved(cluster_queue: Body) -> Counter[str]:
    """Devices by resource name that a ClusterQueue has reserved, over all flavors (`flavorsReservation`), and
    the cores of each flavor, under the name that an offer without a device has.
    """
    found: Counter[str] = Counter()
    for flavor in cluster_queue.get("status", {}).get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            if _is_device(resource["name"]):
                found[resource["name"]] += whole_number(resource.get("total", "0"))
            elif resource["name"] == "cpu":
                found[f"{CORES_PREFIX}{flavor['name']}"] += cores(resource.get("total", "0"))
    return found


def cores(amount: str | int) -> int:
    """Whole cores: a part of one counts as one."""
    return -(-cpu_millis(str(amount)) // CORE_MILLIS)


def requested(workload: Body) -> Counter[str]:
    """Devices by resource name that a Kueue Workload asks for: the sum over pod sets of count x containers'
    limits. Of a pod set that says on which flavor's cores it runs, those.
    """
    found: Counter[str] = Counter()
    for pod_set in workload.get("spec", {}).get("podSets") or ():
        if flavor := pod_set.get(queueing.CORES_OF):
            requests = (each.get("requests") or {} for each in pod_set.get("resources") or ())
            millis = sum(cpu_millis(str(each.get("cpu", 0))) for each in requests)
            found[f"{CORES_PREFIX}{flavor}"] += pod_set.get("count", 1) * -(-millis // CORE_MILLIS)
        for container in pod_set.get("resources") or ():
            asked = {**(container.get("requests") or {}), **(container.get("limits") or {})}
            for name, amount in asked.items():
                if _is_device(name):
                    found[name] += pod_set.get("count", 1) * whole_number(amount)
    return found


def held(workload: Body, resource_name: str) -> int:
    """How many devices of a resource, or cores of a flavor, a Kueue Workload was admitted with."""
    assignments = workload.get("status", {}).get("admission", {}).get("podSetAssignments") or ()
    if not resource_name.startswith(CORES_PREFIX):
        return sum(whole_number(each.get("resourceUsage", {}).get(resource_name, 0)) for each in assignments)
    flavor = resource_name.removeprefix(CORES_PREFIX)
    return sum(
        cores(each.get("resourceUsage", {}).get("cpu", 0))
        for each in assignments
        if (each.get("flavors") or {}).get("cpu") == flavor
    )


def pods(workload: Body) -> int:
    """How many pods a Kueue Workload asks for: the sum over its pod sets."""
    return sum(int(each.get("count", 1)) for each in workload.get("spec", {}).get("podSets") or ())


def limit_of(pod: Body, resource_name: str) -> int:
    """How many of a resource a pod's containers hold; extended resources have request and limit alike."""
    containers = pod.get("spec", {}).get("containers") or ()
    limits = ((container.get("resources") or {}).get("limits") or {} for container in containers)
    return sum(whole_number(each.get(resource_name, 0)) for each in limits)


def asked_of(pod: Body) -> tuple[int, int]:
    """What a pod's containers request: thousandths of a core, and bytes of memory."""
    containers = pod.get("spec", {}).get("containers") or ()
    requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    cpu = sum(cpu_millis(str(each.get("cpu", 0))) for each in requests)
    return cpu, sum(memory_bytes(str(each.get("memory", 0))) for each in requests)


def _is_device(name: str) -> bool:
    """An offer's own name, or one that a device plugin gave; cpu and memory are none."""
    return name.startswith(RESOURCE_PREFIX) or is_gpu(name)


def is_active(cluster_queue: Body) -> tuple[bool, str, str]:
    """Whether Kueue admits from it, with the reason and Kueue's own words (condition Active)."""
    for condition in cluster_queue.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Active":
            return condition["status"] == "True", condition.get("reason", ""), condition.get("message", "")
    return False, "Unknown", "Kueue has not looked at the queue yet."
