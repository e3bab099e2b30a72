"""Kueue: queues become active, Jobs are admitted in order, wait with a reason, and end."""

from __future__ import annotations

import time
from typing import Any

from tests.contract.answers import conditions, dig, pick
from tests.contract.api import Api
from tests.contract.manifests import job
from tests.contract.queues import JOB_UID, LONG, MANAGED, QUEUE, Tenant, priority, told, usage

# Seconds after which a workload that is not there will not come.
SETTLED = 1.0


def check_queues_say_that_they_are_active(api: Api) -> Any:
    tenant = Tenant(api, "2")
    queue = api.read("clusterqueues", tenant.queue).body
    local = api.read("localqueues", "lq", ns=tenant.ns).body
    counts = (
        "pendingWorkloads",
        "reservingWorkloads",
        "admittedWorkloads",
        "flavorsReservation",
        "flavorsUsage",
    )
    defaults = ("queueingStrategy", "stopPolicy", "preemption", "flavorFungibility", "fairSharing")
    return {
        "queue": told(queue),
        "local": told(local),
        "counts": pick(queue["status"], *counts),
        "local_counts": pick(local["status"], *counts),
        "defaults": pick(queue["spec"], *defaults),
        "finalizers": queue["metadata"]["finalizers"],
    }


def check_a_queue_without_its_flavor_is_inactive(api: Api) -> Any:
    name = api.name("queue")
    quota = {"name": "cpu", "nominalQuota": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": api.name("absent"), "resources": [quota]}]}
    api.create("clusterqueues", {"metadata": {"name": name}, "spec": {"resourceGroups": [group]}})
    queue = api.wait(
        "clusterqueues", name, lambda body: told(body).get("Active", {}).get("reason") == "FlavorNotFound"
    )
    ns = api.namespace("t", MANAGED)
    api.create("localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": name}}, ns=ns)
    local = api.wait("localqueues", "lq", lambda body: conditions(body).get("Active"), ns=ns)
    api.create("resourceflavors", {"metadata": {"name": api.name("absent")}})
    api.wait("clusterqueues", name, lambda body: conditions(body)["Active"] == "True")
    return {"queue": told(queue), "local": told(local)}


def check_a_local_queue_without_its_cluster_queue_is_inactive(api: Api) -> Any:
    ns = api.namespace("t", MANAGED)
    api.create("localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "absent"}}, ns=ns)
    return told(api.wait("localqueues", "lq", lambda body: conditions(body).get("Active"), ns=ns))


def check_a_job_is_admitted(api: Api) -> Any:
    tenant = Tenant(api, "2")
    made = tenant.job("one")
    workload = tenant.admitted("one")
    running = api.wait("jobs", "one", lambda body: body["status"].get("active") == 1, ns=tenant.ns)
    meta = workload["metadata"]
    assert meta["labels"][JOB_UID] == made.uid
    assignment = dig(workload, "status.admission.podSetAssignments.0")
    spec = workload["spec"]
    return {
        "made": made.pick("spec.suspend"),
        "running": running["spec"]["suspend"],
        "name": meta["name"],
        "queue": pick(spec, "queueName", "priority", "active"),
        "podset": pick(spec["podSets"][0], "name", "count"),
        "assignment": assignment,
        "charged": dig(workload, "status.admission.clusterQueue"),
        "conditions": {name: told(workload)[name] for name in ("QuotaReserved", "Admitted")},
        "finalizers": meta["finalizers"],
        "owner": pick(meta["ownerReferences"][0], "kind", "name", "controller"),
    }


def check_a_pod_of_an_admitted_job_carries_its_queue(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    pods = api.until(lambda: api.list("pods", ns=tenant.ns, labelSelector="job-name=one").body["items"])
    labels = {key: value for key, value in pods[0]["metadata"]["labels"].items() if "kueue" in key}
    notes = {
        key: value for key, value in (pods[0]["metadata"].get("annotations") or {}).items() if "kueue" in key
    }
    return {"labels": labels, "annotations": notes, "gates": pods[0]["spec"].get("schedulingGates")}


def check_a_flavor_leads_pods_to_its_nodes(api: Api) -> Any:
    flavor = api.name("flavor")
    labels = {"kubernetes.io/os": "linux"}
    tolerations = [{"key": "example.com/own", "operator": "Exists", "effect": "NoSchedule"}]
    api.create(
        "resourceflavors",
        {"metadata": {"name": flavor}, "spec": {"nodeLabels": labels, "tolerations": tolerations}},
    )
    tenant = Tenant(api, flavor=flavor)
    tenant.job("one")
    tenant.admitted("one")
    template = api.wait("jobs", "one", lambda body: not body["spec"]["suspend"], ns=tenant.ns)["spec"][
        "template"
    ]["spec"]
    return pick(template, "nodeSelector", "tolerations")


def check_a_job_without_quota_waits_and_is_told_why(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    tenant.job("two")
    reason = tenant.waiting("two")
    held = api.read("jobs", "two", ns=tenant.ns).pick("spec.suspend", "status.active")
    return {
        "told": reason,
        "job": held,
        "counts": pick(tenant.pending(1)["status"], "pendingWorkloads", "admittedWorkloads"),
    }


def check_the_next_job_is_admitted_when_the_first_ends(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", seconds=1)
    tenant.job("two", seconds=1)
    done = tenant.workload("two", lambda body: conditions(body).get("Finished") == "True", 45)
    first = tenant.workload("one", lambda body: conditions(body).get("Finished") == "True")
    return {"first": told(first)["Finished"], "second": told(done)["Finished"]}


def check_a_failed_job_finishes_its_workload(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", seconds=1, command=("sh", "-c", "exit 1"), backoffLimit=0)
    workload = tenant.workload("one", lambda body: conditions(body).get("Finished") == "True")
    api.wait("clusterqueues", tenant.queue, lambda body: body["status"].get("admittedWorkloads", 0) == 0)
    return told(workload)["Finished"]


def check_a_job_larger_than_the_quota_never_runs(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", "3")
    return tenant.waiting("one")


def check_a_resource_that_the_queue_lacks_is_named(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", resources={"cpu": "1", "memory": "1Gi"})
    return tenant.waiting("one")


def check_an_absent_queue_is_named(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", queue="other")
    return tenant.waiting("one")


def check_a_namespace_outside_the_selector_is_told(api: Api) -> Any:
    tenant = Tenant(api, namespaceSelector={"matchLabels": {"example.com/in": "yes"}})
    tenant.job("one")
    return tenant.waiting("one")


def check_an_unmanaged_namespace_holds_a_labelled_job_for_ever(api: Api) -> Any:
    answer = api.create("jobs", job("one", seconds=1, labels={QUEUE: "lq"}))
    api.wait("jobs", "one", lambda body: conditions(body).get("Suspended") == "True")
    time.sleep(SETTLED)
    return {"suspend": answer.get("spec.suspend"), "workloads": api.list("workloads").names}


def check_a_job_without_a_queue_is_left_alone(api: Api) -> Any:
    tenant = Tenant(api)
    answer = api.create("jobs", job("one", seconds=1), ns=tenant.ns)
    api.wait("jobs", "one", lambda body: body["status"].get("succeeded") == 1, ns=tenant.ns)
    return {"suspend": answer.get("spec.suspend"), "workloads": api.list("workloads", ns=tenant.ns).names}


def check_queues_count_what_they_lend_out(api: Api) -> Any:
    tenant = Tenant(api, "4")
    tenant.job("one", "1500m")
    tenant.job("two")
    tenant.admitted("one")
    tenant.admitted("two")
    queue = api.wait("clusterqueues", tenant.queue, lambda body: body["status"].get("admittedWorkloads") == 2)
    local = api.wait(
        "localqueues", "lq", lambda body: body["status"].get("admittedWorkloads") == 2, ns=tenant.ns
    )
    counts = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    return {
        "queue": [pick(queue["status"], *counts), usage(queue), usage(queue, "flavorsUsage")],
        "local": [pick(local["status"], *counts), usage(local), usage(local, "flavorsUsage")],
    }


def check_the_best_effort_queue_lets_small_ones_pass(api: Api) -> Any:
    tenant = Tenant(api, "2")
    tenant.job("first")
    tenant.admitted("first")
    tenant.job("large", "2")
    tenant.waiting("large")
    tenant.job("small")
    tenant.admitted("small")
    return tenant.is_admitted("large")


def check_the_strict_queue_keeps_the_order(api: Api) -> Any:
    tenant = Tenant(api, "2", queueingStrategy="StrictFIFO")
    tenant.job("first")
    tenant.admitted("first")
    tenant.job("large", "2")
    reason = tenant.waiting("large")
    tenant.next_second("large")
    tenant.job("small")
    tenant.pending(2)
    passed = tenant.is_admitted("small")
    api.delete("jobs", "first", ns=tenant.ns, propagationPolicy="Background")
    tenant.admitted("large")
    return {"passed": passed, "told": reason, "small": tenant.is_admitted("small")}


def check_a_higher_priority_goes_first(api: Api) -> Any:
    high, low = priority(api, "high", 100), priority(api, "low", 1)
    tenant = Tenant(api)
    tenant.job("first")
    tenant.admitted("first")
    tenant.job("low", priority=low)
    tenant.waiting("low")
    tenant.job("high", priority=high)
    tenant.pending(2)
    api.delete("jobs", "first", ns=tenant.ns, propagationPolicy="Background")
    workload = tenant.admitted("high")
    return {"spec": pick(workload["spec"], "priority", "priorityClassRef"), "low": tenant.is_admitted("low")}


def check_an_absent_priority_class_leaves_no_workload(api: Api) -> Any:
    tenant = Tenant(api)
    answer = tenant.job("one", priority="absent")
    api.wait("jobs", "one", lambda body: conditions(body).get("Suspended") == "True", ns=tenant.ns)
    time.sleep(SETTLED)
    return [answer.status, answer.get("spec.suspend"), api.list("workloads", ns=tenant.ns).names]


def check_a_workload_is_stopped_and_started_again(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    name = tenant.admitted("one")["metadata"]["name"]
    api.patch("workloads", name, {"spec": {"active": False}}, ns=tenant.ns)
    stopped = tenant.workload(
        "one",
        lambda body: (
            conditions(body).get("Evicted") == "True" and conditions(body).get("QuotaReserved") == "False"
        ),
    )
    held = api.wait("jobs", "one", lambda body: body["spec"]["suspend"], ns=tenant.ns)
    api.patch("workloads", name, {"spec": {"active": True}}, ns=tenant.ns)
    again = tenant.admitted("one")
    seen = {key: told(stopped).get(key) for key in ("Evicted", "QuotaReserved", "Admitted")}
    return {"stopped": seen, "suspended": held["spec"]["suspend"], "again": told(again)["Evicted"]["status"]}


def check_a_running_job_keeps_its_queue(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    api.wait("jobs", "one", lambda body: not body["spec"]["suspend"], ns=tenant.ns)
    body = {"metadata": {"labels": {QUEUE: "other"}}}
    return api.patch("jobs", "one", body, ns=tenant.ns).refusal


def check_a_workload_goes_with_its_job(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    name = tenant.admitted("one")["metadata"]["name"]
    api.delete("jobs", "one", ns=tenant.ns, propagationPolicy="Background")
    gone = api.gone("workloads", name, ns=tenant.ns)
    queue = api.wait("clusterqueues", tenant.queue, lambda body: not body["status"].get("reservingWorkloads"))
    return {"gone": gone, "usage": usage(queue)}


def check_a_queue_in_use_is_not_removed_at_once(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one")
    tenant.admitted("one")
    answer = api.delete("clusterqueues", tenant.queue)
    held = api.wait(
        "clusterqueues", tenant.queue, lambda body: told(body)["Active"]["reason"] == "Terminating"
    )
    api.delete("jobs", "one", ns=tenant.ns, propagationPolicy="Background")
    return {
        "answer": answer.get("metadata.finalizers"),
        "held": told(held),
        "gone": api.gone("clusterqueues", tenant.queue),
    }


def check_a_flavor_in_use_is_not_removed_at_once(api: Api) -> Any:
    tenant = Tenant(api)
    answer = api.delete("resourceflavors", tenant.flavor)
    still = api.read("resourceflavors", tenant.flavor)
    api.delete("clusterqueues", tenant.queue)
    return [answer.get("metadata.finalizers"), still.status, api.gone("resourceflavors", tenant.flavor)]


def check_workloads_are_found_by_their_queue(api: Api) -> Any:
    tenant = Tenant(api)
    tenant.job("one", seconds=LONG)
    name = tenant.admitted("one")["metadata"]["name"]
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    table = api.request("GET", api.url("workloads", ns=tenant.ns), headers=headers)
    columns = [column["name"] for column in table.body["columnDefinitions"]]
    return {
        "columns": columns,
        "cells": table.body["rows"][0]["cells"][:-1],
        "same": table.body["rows"][0]["cells"][0] == name,
    }
