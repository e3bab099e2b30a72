"""From Kueue's objects (v1beta2, whole or as the mirror keeps them) to what a prediction works on. Pure.

The same reading serves queues as they are and queues as the product would apply them, so that a prediction
and the cluster start from the same text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from typing import Any

from apps.cluster.objects.quantities import parse_quantity
from apps.quotas.kueue.predict.view import Cohort, FlavorResource, Queue, ResourceQuota, View, Work

Body = Mapping[str, Any]
UNCOUNTED = ("ephemeral-storage",)


def view(
    queues: Iterable[Body],
    cohorts: Iterable[Body],
    workloads: Iterable[Body],
    *,
    local: Mapping[tuple[str, str], str],
) -> View:
    """`local` names the ClusterQueue of each LocalQueue by (namespace, name); other work is left out."""
    found = [work for body in workloads if (work := read_work(body, local)) is not None]
    return View(tuple(map(read_cohort, cohorts)), tuple(map(read_queue, queues)), tuple(found))


def read_cohort(body: Body) -> Cohort:
    """A Cohort."""
    spec = body.get("spec") or {}
    return Cohort(body["metadata"]["name"], spec.get("parentName") or "", _quotas(spec))


def read_queue(body: Body) -> Queue:
    """A ClusterQueue; what its spec leaves out has Kueue's default."""
    spec = body.get("spec") or {}
    preemption = spec.get("preemption") or {}
    flavors = [flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]]
    return Queue(
        name=body["metadata"]["name"],
        cohort=spec.get("cohortName") or "",
        flavors=tuple(flavors),
        quotas=_quotas(spec),
        reclaim_within_cohort=preemption.get("reclaimWithinCohort") or "Never",
        within_cluster_queue=preemption.get("withinClusterQueue") or "Never",
        is_strict=spec.get("queueingStrategy") == "StrictFIFO",
        is_stopped=(spec.get("stopPolicy") or "None") != "None",
    )


def read_work(body: Body, local: Mapping[tuple[str, str], str]) -> Work | None:
    """A Workload that holds quota or waits for it; None for one that is finished, inactive or in no queue."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    true = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
    queue = local.get((metadata["namespace"], spec.get("queueName") or ""))
    if queue is None or not spec.get("active", True) or "Finished" in true:
        return None
    admission = status.get("admission") if "QuotaReserved" in true else None
    requests, flavors = _reserved(admission) if admission else (_requested(spec), {})
    return Work(
        key=f"{metadata['namespace']}/{metadata['name']}",
        queue=admission["clusterQueue"] if admission else queue,
        requests=requests,
        created=_moment(metadata["creationTimestamp"]),
        priority=spec.get("priority") or 0,
        flavors=flavors,
        reserved_at=_moment(true["QuotaReserved"]["lastTransitionTime"]) if admission else None,
        uid=metadata.get("uid", ""),
    )


def units(resource: str, quantity: str | int) -> int:
    """A quantity as Kueue counts it: thousandths of a core for CPU, else whole units, rounded up."""
    exact = Fraction(parse_quantity(str(quantity)))
    return ceil(exact * 1000 if resource == "cpu" else exact)


def _quotas(spec: Body) -> dict[FlavorResource, ResourceQuota]:
    return {
        (flavor["name"], entry["name"]): ResourceQuota(
            units(entry["name"], entry["nominalQuota"]),
            _limit(entry, "borrowingLimit"),
            _limit(entry, "lendingLimit"),
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for entry in flavor["resources"]
    }


def _limit(entry: Body, name: str) -> int | None:
    return None if entry.get(name) is None else units(entry["name"], entry[name])


def _reserved(admission: Body) -> tuple[dict[str, int], dict[str, str]]:
    amounts: Counter[str] = Counter()
    flavors: dict[str, str] = {}
    for assigned in admission.get("podSetAssignments") or ():
        flavors |= assigned.get("flavors") or {}
        for resource, amount in (assigned.get("resourceUsage") or {}).items():
            amounts[resource] += units(resource, amount)
    return {resource: amounts[resource] for resource in flavors}, flavors


def _requested(spec: Body) -> dict[str, int]:
    found: Counter[str] = Counter()
    for pod_set in spec.get("podSets") or ():
        for asked in _containers(pod_set):
            for resource, amount in {**(asked.get("limits") or {}), **(asked.get("requests") or {})}.items():
                if resource not in UNCOUNTED:
                    found[resource] += pod_set.get("count", 1) * units(resource, amount)
    return dict(found)


def _containers(pod_set: Body) -> list[Body]:
    # The mirror keeps only what the containers ask for; a whole object has its pod template.
    if "resources" in pod_set:
        return list(pod_set["resources"])
    return [each.get("resources") or {} for each in pod_set["template"]["spec"]["containers"]]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
