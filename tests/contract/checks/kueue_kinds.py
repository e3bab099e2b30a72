"""Kueue: pods, Deployments, StatefulSets and devices behind the queue; and what its webhooks refuse."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Answer, Body, conditions, dig, pick
from tests.contract.api import Api
from tests.contract.checks.dra import Devices
from tests.contract.manifests import pod, replicated
from tests.contract.queues import MANAGED, QUEUE, Tenant, priority, usage

LABEL = {QUEUE: "lq"}
CPU = {"cpu": "1"}


def _make(tenant: Tenant, resource: str, body: Body) -> Answer:
    answer = tenant.api.create(resource, body, ns=tenant.ns)
    assert answer.status == 201, answer.body
    return answer


def _merge(tenant: Tenant, resource: str, name: str, patch: Body) -> Answer:
    return tenant.api.patch(resource, name, patch, ns=tenant.ns)


def _running(tenant: Tenant, name: str) -> Body:
    return tenant.api.wait("pods", name, lambda body: body["status"]["phase"] == "Running", ns=tenant.ns)


def check_a_queued_pod_is_gated_until_admitted(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("first")
    tenant.admitted("first")
    made = _make(tenant, "pods", pod("a", resources=CPU, labels=LABEL))
    waiting = tenant.waiting("a")
    shown = api.read("pods", "a", ns=tenant.ns)
    api.delete("jobs", "first", ns=tenant.ns, propagationPolicy="Background")
    running = _running(tenant, "a")
    labels = {key: value for key, value in running["metadata"]["labels"].items() if "kueue" in key}
    return {
        "gates": made.get("spec.schedulingGates"),
        "made": made.pick("metadata.labels", "metadata.finalizers"),
        "waiting": waiting,
        "condition": conditions(shown.body, "reason")["PodScheduled"],
        "labels": labels,
        "gates_after": running["spec"].get("schedulingGates"),
    }


def check_a_preempted_pod_is_deleted(api: Api) -> Any:
    high = priority(api, "high", 10)
    tenant = Tenant(api, preemption={"withinClusterQueue": "LowerPriority"})
    _make(tenant, "pods", pod("a", resources=CPU, labels=LABEL))
    _running(tenant, "a")
    tenant.job("urgent", priority=high)
    tenant.admitted("urgent")
    return api.gone("pods", "a", ns=tenant.ns)


def check_a_finished_pod_frees_its_quota(api: Api) -> Any:
    tenant = Tenant(api)
    _make(tenant, "pods", pod("a", resources=CPU, labels=LABEL))
    _running(tenant, "a")
    name = tenant.admitted("a")["metadata"]["name"]
    api.delete("pods", "a", ns=tenant.ns)
    api.gone("pods", "a", ns=tenant.ns)
    return api.gone("workloads", name, ns=tenant.ns)


def check_a_stateful_set_waits_as_one(api: Api) -> Any:
    tenant = Tenant(api)
    _make(tenant, "statefulsets", replicated("nb", replicas=1, labels=LABEL, resources=CPU))
    running = _running(tenant, "nb-0")
    workload = tenant.admitted("nb")
    _make(tenant, "statefulsets", replicated("other", replicas=1, labels=LABEL, resources=CPU))
    waiting = tenant.waiting("other")
    gated = api.wait(
        "pods", "other-0", lambda body: conditions(body).get("PodScheduled") == "False", ns=tenant.ns
    )
    labels = {key: value for key, value in running["metadata"]["labels"].items() if "kueue" in key}
    return {
        "name": workload["metadata"]["name"],
        "labels": labels,
        "waiting": waiting,
        "gated": conditions(gated, "reason")["PodScheduled"],
        "gates": gated["spec"]["schedulingGates"],
    }


def check_a_stateful_set_at_zero_frees_its_quota(api: Api) -> Any:
    tenant = Tenant(api)
    _make(tenant, "statefulsets", replicated("nb", replicas=1, labels=LABEL, resources=CPU))
    _running(tenant, "nb-0")
    tenant.admitted("nb")
    _merge(tenant, "statefulsets", "nb", {"spec": {"replicas": 0}})
    api.gone("pods", "nb-0", ns=tenant.ns)
    queue = api.wait("clusterqueues", tenant.queue, lambda body: not body["status"].get("reservingWorkloads"))
    # Starting is refused while the old pod is still known to Kueue.
    api.until(lambda: _merge(tenant, "statefulsets", "nb", {"spec": {"replicas": 1}}).status == 200)
    _running(tenant, "nb-0")
    return usage(queue)


def check_a_stateful_set_in_a_queue_keeps_its_size(api: Api) -> Any:
    tenant = Tenant(api, "4")
    _make(tenant, "statefulsets", replicated("nb", replicas=1, labels=LABEL, resources=CPU))
    _running(tenant, "nb-0")
    tenant.admitted("nb")
    api.wait("statefulsets", "nb", lambda body: body["status"].get("readyReplicas") == 1, ns=tenant.ns)
    size = _merge(tenant, "statefulsets", "nb", {"spec": {"replicas": 2}})
    queue = _merge(tenant, "statefulsets", "nb", {"metadata": {"labels": {QUEUE: "other"}}})
    return {"size": size.refusal, "queue": queue.refusal}


def check_each_pod_of_a_deployment_queues(api: Api) -> Any:
    tenant = Tenant(api)
    _make(tenant, "deployments", replicated("serve", replicas=2, labels=LABEL, resources=CPU))
    api.wait("deployments", "serve", lambda body: body["status"].get("availableReplicas") == 1, ns=tenant.ns)
    tenant.pending(1)
    pods = api.list("pods", ns=tenant.ns, labelSelector="app=serve").body["items"]
    phases = sorted(pod_["status"]["phase"] for pod_ in pods)
    queues = {pod_["metadata"]["labels"].get(QUEUE) for pod_ in pods}
    gates = sorted(str(pod_["spec"].get("schedulingGates")) for pod_ in pods)
    return {"phases": phases, "queues": queues, "gates": gates}


def check_a_local_queue_named_default_takes_all_jobs(api: Api) -> Any:
    tenant = Tenant(api)
    body = {"metadata": {"name": "default"}, "spec": {"clusterQueue": tenant.queue}}
    api.create("localqueues", body, ns=tenant.ns)
    api.wait("localqueues", "default", lambda found: conditions(found).get("Active") == "True", ns=tenant.ns)
    made = api.create("pods", pod("a", resources=CPU), ns=tenant.ns)
    return made.pick("metadata.labels", "spec.schedulingGates")


def check_a_device_is_charged_by_its_extended_name(api: Api) -> Any:
    devices = Devices(api)
    tenant = Tenant(api, resource=devices.resource)
    tenant.job("one", "1")
    workload = tenant.admitted("one")
    assignment = dig(workload, "status.admission.podSetAssignments.0")
    pods = api.until(
        lambda: api.list("pods", ns=tenant.ns, fieldSelector="status.phase=Running").body["items"]
    )
    mapping = dig(pods[0], "status.extendedResourceClaimStatus.requestMappings")
    tenant.job("two", "1")
    waiting = tenant.waiting("two")
    queue = api.wait("clusterqueues", tenant.queue, lambda body: body["status"].get("pendingWorkloads") == 1)
    return {"assignment": assignment, "mapping": mapping, "waiting": waiting, "usage": usage(queue)}


def check_a_notebook_waits_for_a_device_that_a_job_holds(api: Api) -> Any:
    devices = Devices(api)
    tenant = Tenant(api, resource=devices.resource)
    tenant.job("one", "1")
    tenant.admitted("one")
    _make(tenant, "statefulsets", replicated("nb", labels=LABEL, resources={devices.resource: "1"}))
    gated = api.wait(
        "pods", "nb-0", lambda body: conditions(body).get("PodScheduled") == "False", ns=tenant.ns
    )
    api.delete("jobs", "one", ns=tenant.ns, propagationPolicy="Background")
    running = _running(tenant, "nb-0")
    claim = running["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    results = api.read("resourceclaims", claim, ns=tenant.ns).get("status.allocation.devices.results")
    return {
        "gated": conditions(gated, "reason")["PodScheduled"],
        "device": [result["device"] for result in results],
    }


def check_a_claim_of_an_unmapped_class_is_told(api: Api) -> Any:
    devices = Devices(api, named=False)
    tenant = Tenant(api)
    request = {"name": "gpu", "exactly": {"deviceClassName": devices.device_class}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    api.create("resourceclaimtemplates", template, ns=tenant.ns)
    body = pod("a", labels=LABEL, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
    _make(tenant, "pods", body)
    return tenant.waiting("a")


def check_a_cluster_queue_that_makes_no_sense_is_refused(api: Api) -> Any:
    def make(word: str, *flavors: Body, **spec: Any) -> Any:
        group = {"coveredResources": ["cpu"], "flavors": list(flavors)}
        body = {"metadata": {"name": api.name(word)}, "spec": {"resourceGroups": [group], **spec}}
        return api.create("clusterqueues", body).refusal

    def flavor(**quota: Any) -> Body:
        return {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1", **quota}]}

    return {
        "borrow_alone": make("b", flavor(borrowingLimit="1")),
        "lend_too_much": make("l", flavor(lendingLimit="2"), cohortName="x"),
        "negative": make("n", flavor(nominalQuota="-1")),
        "order": make("o", {"name": "f", "resources": [{"name": "memory", "nominalQuota": "1"}]}),
        "twice": make("t", flavor(), flavor()),
        "strategy": make("s", flavor(), queueingStrategy="Random"),
        "preempt": make(
            "p",
            flavor(),
            preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}},
        ),
    }


def check_a_local_queue_keeps_its_cluster_queue(api: Api) -> Any:
    ns = api.namespace("t", MANAGED)
    api.create("localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "one"}}, ns=ns)
    return api.patch("localqueues", "lq", {"spec": {"clusterQueue": "two"}}, ns=ns).refusal


def check_a_priority_class_needs_its_value(api: Api) -> Any:
    missing = api.create("workloadpriorityclasses", {"metadata": {"name": api.name("a")}})
    name = priority(api, "b", 5)
    changed = api.patch("workloadpriorityclasses", name, {"value": 6})
    return {"missing": missing.refusal, "changed": changed.pick("value")}


def check_a_workload_keeps_what_was_admitted(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    workload = tenant.admitted("one")
    name = workload["metadata"]["name"]
    answer = _merge(tenant, "workloads", name, {"spec": {"queueName": "other"}})
    podset = workload["spec"]["podSets"][0]
    resources = dig(podset, "template.spec.containers.0.resources")
    return {"queue": answer.refusal, "podset": pick(podset, "name", "count"), "resources": resources}
