"""The columns that `kubectl get` shows, for every kind of the contract."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api
from tests.contract.kinds import KINDS
from tests.contract.manifests import job, pod, replicated

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def _columns(api: Api, *resources: str) -> Any:
    seen = {}
    for resource in resources:
        ns = None if KINDS[resource].namespaced else "*"
        answer = api.request("GET", api.url(resource, ns=ns), headers=TABLE, params={"limit": "1"})
        assert answer.status == 200, resource
        columns = answer.body["columnDefinitions"]
        seen[resource] = [
            [column["name"], column["type"], column["format"], column["priority"]] for column in columns
        ]
    return seen


def _cells(api: Api, resource: str, name: str, skip: int = 1) -> Any:
    """The cells of one object without the last ones, which hold its age or what only the fleet knows."""
    answer = api.request("GET", api.url(resource, name), headers=TABLE)
    return answer.body["rows"][0]["cells"][: -skip or None]


def check_core_kinds_have_their_columns(api: Api) -> Any:
    return _columns(
        api, "namespaces", "nodes", "pods", "services", "configmaps", "secrets", "serviceaccounts", "events"
    )


def check_quotas_and_volumes_have_their_columns(api: Api) -> Any:
    return _columns(api, "resourcequotas", "limitranges", "persistentvolumeclaims", "networkpolicies")


def check_workloads_of_apps_and_batch_have_their_columns(api: Api) -> Any:
    return _columns(api, "statefulsets", "deployments", "replicasets", "jobs")


def check_roles_have_their_columns(api: Api) -> Any:
    return _columns(api, "roles", "rolebindings", "clusterroles", "clusterrolebindings")


def check_device_kinds_have_their_columns(api: Api) -> Any:
    return _columns(api, "deviceclasses", "resourceslices", "resourceclaims", "resourceclaimtemplates")


def check_queue_kinds_have_their_columns(api: Api) -> Any:
    names = (
        "clusterqueues",
        "localqueues",
        "workloads",
        "cohorts",
        "resourceflavors",
        "workloadpriorityclasses",
    )
    return _columns(api, *names, "customresourcedefinitions")


def check_a_waiting_pod_is_shown_as_pending(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    api.create("pods", pod("b", schedulingGates=[{"name": "example.com/gate"}]))
    gated = api.until(lambda: (cells := _cells(api, "pods", "b"))[2] == "SchedulingGated" and cells)
    return [_cells(api, "pods", "a")[:4], gated[:4]]


def check_a_running_pod_is_shown_with_its_node(api: Api) -> Any:
    api.create("pods", pod("a"))
    body = api.wait("pods", "a", lambda found: found["status"]["phase"] == "Running")
    cells = api.until(lambda: (found := _cells(api, "pods", "a"))[1] == "1/1" and found)
    assert cells[6] == body["spec"]["nodeName"]
    return [cells[:4], cells[7]]


def check_a_finished_job_is_shown_as_complete(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    api.wait("jobs", "a", lambda body: body["status"].get("completionTime"))
    pods = api.list("pods", labelSelector="job-name=a").names
    cells = _cells(api, "jobs", "a", 0)
    return {"job": cells[:3] + cells[5:7], "pod": _cells(api, "pods", pods[0])[1:4]}


def check_replicated_kinds_show_their_counts(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=1))
    api.create("statefulsets", replicated("b", replicas=1))
    api.wait("deployments", "a", lambda body: body["status"].get("availableReplicas") == 1)
    api.wait("statefulsets", "b", lambda body: body["status"].get("readyReplicas") == 1)
    deployment, stateful = _cells(api, "deployments", "a", 0), _cells(api, "statefulsets", "b", 0)
    return {"deployment": deployment[:4] + deployment[5:], "statefulset": stateful[:2] + stateful[3:]}


def check_quotas_and_services_show_what_they_hold(api: Api) -> Any:
    api.create(
        "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3", "requests.cpu": "2"}}}
    )
    api.wait("resourcequotas", "q", lambda body: body.get("status", {}).get("used"))
    spec = {"selector": {"app": "a"}, "clusterIP": "None", "ports": [{"port": 80}, {"name": "b", "port": 81}]}
    spec["ports"] = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]
    api.create("services", {"metadata": {"name": "s"}, "spec": spec})
    quota = _cells(api, "resourcequotas", "q", 0)
    service = _cells(api, "services", "s", 0)
    return {"quota": quota[:3], "service": service[:5] + service[6:]}
