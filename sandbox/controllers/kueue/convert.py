"""From Kueue's API objects to the admission model and back to numbers. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import orjson

from sandbox.api.meta.objects import Obj, dig
from sandbox.controllers.amounts import amount
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.model import (
    CohortSpec,
    Flavor,
    FlavorResource,
    Fungibility,
    PodSet,
    Preemption,
    QueueSpec,
    ResourceGroup,
    ResourceQuota,
    Work,
)
from sandbox.controllers.kueue.stopping import checks
from sandbox.controllers.requests import NO_DEFAULTS, pod_requests

EXCLUDED = ("ephemeral-storage",)


def flavor(obj: Obj) -> Flavor:
    """A ResourceFlavor."""
    spec = obj.get("spec") or {}
    return Flavor(
        obj["metadata"]["name"],
        spec.get("nodeLabels") or {},
        tuple(spec.get("nodeTaints") or ()),
        tuple(spec.get("tolerations") or ()),
    )


def quotas(groups: Iterable[Obj]) -> dict[FlavorResource, ResourceQuota]:
    """ResourceQuota per flavor resource of `spec.resourceGroups`."""
    found = {}
    for group in groups:
        for item in group.get("flavors") or ():
            for resource in item.get("resources") or ():
                name = resource["name"]
                limits = [
                    None if resource.get(key) is None else amount(name, resource[key])
                    for key in ("borrowingLimit", "lendingLimit")
                ]
                found[FlavorResource(item["name"], name)] = ResourceQuota(
                    amount(name, resource["nominalQuota"]), *limits
                )
    return found


def cohort(obj: Obj) -> CohortSpec:
    """A Cohort."""
    spec = obj.get("spec") or {}
    return CohortSpec(
        obj["metadata"]["name"], spec.get("parentName", ""), quotas(spec.get("resourceGroups") or ())
    )


def cluster_queue(obj: Obj, known_flavors: Iterable[str], known_checks: Mapping[str, bool]) -> QueueSpec:
    """A ClusterQueue; active unless stopped, being deleted, or naming a flavor or a check that is not there,
    or a check that is not active.
    """
    spec = obj.get("spec") or {}
    groups = tuple(
        ResourceGroup(frozenset(g["coveredResources"]), tuple(f["name"] for f in g["flavors"]))
        for g in spec.get("resourceGroups") or ()
    )
    borrow = dig(spec, "preemption", "borrowWithinCohort", default={})
    return QueueSpec(
        name=obj["metadata"]["name"],
        cohort=spec.get("cohortName", ""),
        groups=groups,
        quotas=quotas(spec.get("resourceGroups") or ()),
        preemption=Preemption(
            dig(spec, "preemption", "reclaimWithinCohort", default="Never"),
            dig(spec, "preemption", "withinClusterQueue", default="Never"),
            borrow.get("policy", "Never"),
            borrow.get("maxPriorityThreshold"),
        ),
        fungibility=Fungibility(
            dig(spec, "flavorFungibility", "whenCanBorrow", default="MayStopSearch"),
            dig(spec, "flavorFungibility", "whenCanPreempt", default="TryNextFlavor"),
            dig(spec, "flavorFungibility", "preference", default="BorrowingOverPreemption"),
        ),
        strict_fifo=spec.get("queueingStrategy") == "StrictFIFO",
        active=inactive_reason(obj, known_flavors, known_checks)[0] == "Ready",
    )


def inactive_reason(
    obj: Obj, known_flavors: Iterable[str], known_checks: Mapping[str, bool]
) -> tuple[str, str]:
    """Reason and message of a ClusterQueue's Active condition; of the checks whether each is active."""
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    spec, reasons, words = obj.get("spec") or {}, [], []
    if spec.get("stopPolicy", "None") != "None":
        reasons.append("Stopped")
        words.append("is stopped")
    named = [f["name"] for g in spec.get("resourceGroups") or () for f in g.get("flavors") or ()]
    missing = [name for name in dict.fromkeys(named) if name not in set(known_flavors)]
    if missing:
        reasons.append("FlavorNotFound")
        words.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
    absent, inactive = checks.lacking(obj, known_checks)
    if absent:
        reasons.append("AdmissionCheckNotFound")
        words.append(f"references missing AdmissionCheck(s): {','.join(absent)}")
    if inactive:
        reasons.append("AdmissionCheckInactive")
        words.append(f"references inactive AdmissionCheck(s): {','.join(inactive)}")
    if reasons:
        return reasons[0], f"Can't admit new workloads: {', '.join(words)}."
    return "Ready", "Can admit new workloads"


def work(
    workload: Obj, queue: QueueSpec, requests: Mapping[str, Mapping[str, int]], blocked: str = ""
) -> Work:
    """A Workload as the scheduler sees it; `requests` are its totals per pod set."""
    meta, spec = workload["metadata"], workload["spec"]
    reserved = state.has_quota(workload)
    condition = state.condition(workload, "QuotaReserved")
    return Work(
        key=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        queue=queue.name,
        priority=int(spec.get("priority", 0)),
        order=queue_timestamp(workload),
        pod_sets=tuple(_pod_set(p, requests[p["name"]], queue) for p in spec["podSets"]),
        job_uid=(meta.get("labels") or {}).get("kueue.x-k8s.io/job-uid", ""),
        shape=_shape(spec, requests),
        reserved=reserved,
        reserved_at=condition["lastTransitionTime"] if reserved and condition else "",
        evicted=state.is_evicted(workload),
        usage=admitted_usage(workload) if reserved else {},
        blocked=blocked,
    )


def _pod_set(pods: Obj, requests: Mapping[str, int], queue: QueueSpec) -> PodSet:
    spec = dig(pods, "template", "spec", default={})
    total = dict(requests)
    if queue.group_of("pods") is not None:
        total["pods"] = int(pods["count"])
    return PodSet(
        pods["name"],
        int(pods["count"]),
        total,
        spec.get("nodeSelector") or {},
        spec.get("affinity") or {},
        tuple(spec.get("tolerations") or ()),
    )


def _shape(spec: Obj, requests: Mapping[str, Mapping[str, int]]) -> str:
    """Equal for workloads the scheduler cannot tell apart: priority, counts, requests and placement of each
    pod set.
    """
    parts = [
        {
            "name": p["name"],
            "count": p["count"],
            "requests": dict(requests[p["name"]]),
            **{
                k: dig(p, "template", "spec", k)
                for k in ("nodeSelector", "affinity", "tolerations", "priority", "resourceClaims")
            },
            "images": [c.get("resources") for c in dig(p, "template", "spec", "containers", default=[])],
        }
        for p in spec["podSets"]
    ]
    text = orjson.dumps({"podSets": parts, "priority": spec.get("priority", 0)}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def queue_timestamp(workload: Obj) -> str:
    """When its place in the queue counts from: creation, or the eviction for want of ready pods."""
    evicted = state.condition(workload, "Evicted")
    if (
        evicted
        and evicted["status"] == "True"
        and evicted["reason"] in ("PodsReadyTimeout", "AdmissionCheck")
    ):
        return str(evicted["lastTransitionTime"])
    return str(workload["metadata"]["creationTimestamp"])


def admitted_usage(workload: Obj) -> dict[FlavorResource, int]:
    """The quota a workload's admission holds, less the part of pods that are done and not replaced."""
    usage: dict[FlavorResource, int] = {}
    reclaimed = _reclaimed(workload)
    for assignment in dig(workload, "status", "admission", "podSetAssignments", default=[]):
        flavors, count = assignment.get("flavors") or {}, int(assignment.get("count", 1))
        left = max(0, count - reclaimed.get(assignment["name"], 0))
        for name, text in (assignment.get("resourceUsage") or {}).items():
            if name in flavors:
                fr = FlavorResource(flavors[name], name)
                usage[fr] = usage.get(fr, 0) + amount(name, text) * left // max(1, count)
    return usage


def _reclaimed(workload: Obj) -> dict[str, int]:
    return {r["name"]: int(r["count"]) for r in dig(workload, "status", "reclaimablePods", default=[])}


def pod_set_requests(
    workload: Obj, defaults: Mapping[str, Mapping[str, str]] = NO_DEFAULTS
) -> dict[str, dict[str, int]]:
    """Totals per pod set: one pod's requests times the pods still needed, without excluded resources."""
    reclaimed = _reclaimed(workload)
    found = {}
    for pods in workload["spec"]["podSets"]:
        count = max(0, int(pods["count"]) - reclaimed.get(pods["name"], 0))
        single = pod_requests(dig(pods, "template", "spec", default={}), defaults)
        found[pods["name"]] = {n: v * count for n, v in single.items() if not n.startswith(EXCLUDED)}
    return found
