"""Status and scale: what each address may write, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from tests.contract.api import APPLY, JSON_PATCH, Api
from tests.contract.manifests import configmap, pod, replicated


def check_the_main_address_ignores_the_status(api: Api) -> Any:
    name = api.name("flavor")
    api.create("cohorts", {"metadata": {"name": name}})
    body = {**replicated("a", replicas=0), "status": {"replicas": 7}}
    created = api.create("deployments", body)
    patched = api.patch("deployments", "a", {"status": {"replicas": 7}})
    custom = api.patch("cohorts", name, {"status": {"fairSharing": {"weightedShare": 9}}})
    return {
        "created": created.pick("status.replicas"),
        "patched": patched.pick("status.replicas"),
        "custom": custom.pick("status.fairSharing.weightedShare"),
    }


def check_the_status_address_ignores_the_spec(api: Api) -> Any:
    created = api.create("statefulsets", replicated("a", replicas=0)).body
    created["spec"]["replicas"] = 5
    created["metadata"]["labels"] = {"l": "m"}
    created["status"]["collisionCount"] = 3
    answer = api.request("PUT", api.url("statefulsets", "a", sub="status"), json=created)
    # The controller may have written in between; then the version is the old one.
    if answer.status == 409:
        created["metadata"].pop("resourceVersion")
        answer = api.request("PUT", api.url("statefulsets", "a", sub="status"), json=created)
    return answer.pick("spec.replicas", "status.collisionCount", "metadata.labels")


def check_a_status_is_patched_by_its_own_address(api: Api) -> Any:
    api.create("resourcequotas", {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "3"}}})
    api.wait("resourcequotas", "a", lambda quota: quota.get("status", {}).get("hard"))
    patch = {"status": {"used": {"example.com/x": "2"}}}
    answer = api.patch("resourcequotas", "a", patch, sub="status")
    return [answer.status, answer.body["status"]["used"]["example.com/x"], answer.get("spec")]


def check_a_kind_without_status_has_no_such_address(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    return {
        "configmap": api.request("GET", api.url("configmaps", "a", sub="status")).refusal,
        "job_scale": api.request("GET", api.url("jobs", "a", sub="scale")).refusal,
        "nothing": api.request("GET", api.url("pods", "a", sub="wonder")).refusal,
    }


def check_the_scale_tells_replicas_and_selector(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=0))
    api.create("statefulsets", replicated("b", replicas=0))
    answers = [
        api.request("GET", api.url(r, n, sub="scale"))
        for r, n in (("deployments", "a"), ("statefulsets", "b"))
    ]
    fields = ("apiVersion", "kind", "metadata.name", "spec", "status.replicas", "status.selector")
    return [answer.pick(*fields) for answer in answers]


def check_the_scale_is_replaced(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=0))
    url = api.url("deployments", "a", sub="scale")
    scale = api.request("GET", url).body
    scale["spec"]["replicas"] = 2
    api.patch("deployments", "a", {"metadata": {"labels": {"l": "m"}}})
    scale["metadata"]["resourceVersion"] = "1"
    stale = api.request("PUT", url, json=scale)
    scale["metadata"].pop("resourceVersion")
    answer = api.request("PUT", url, json=scale)
    return {
        "stale": stale.refusal,
        "spec": answer.pick("spec"),
        "kept": api.read("deployments", "a").get("spec.replicas"),
    }


def check_the_scale_is_patched(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=0))
    merge = api.patch("statefulsets", "a", {"spec": {"replicas": 1}}, sub="scale")
    steps = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    listed = api.patch("statefulsets", "a", steps, media=JSON_PATCH, sub="scale")
    wrong = api.patch("statefulsets", "a", {"spec": {"replicas": -1}}, sub="scale")
    return [merge.pick("spec", "kind"), listed.pick("spec"), wrong.refusal]


def check_the_scale_is_applied_and_owned(api: Api) -> Any:
    body = replicated("a", replicas=0)
    del body["spec"]["replicas"]
    del body["metadata"]
    api.apply("deployments", "a", body)
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 0},
    }
    answer = api.patch(
        "deployments", "a", scale, media=APPLY, sub="scale", fieldManager="scaler", force="true"
    )
    owners = api.read("deployments", "a").get("metadata.managedFields")
    fields = ("manager", "operation", "subresource", "fieldsV1")
    mine = [{key: entry.get(key) for key in fields} for entry in owners if entry["manager"] == "scaler"]
    return {"answer": answer.pick("spec"), "owners": mine}


def check_a_pod_is_bound_by_its_own_address(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    node = api.list("nodes", ns="*").names[0]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target}
    bound = api.request("POST", api.url("pods", "a", sub="binding"), json=body)
    again = api.request("POST", api.url("pods", "a", sub="binding"), json=body)
    placed = api.read("pods", "a")
    assert placed.get("spec.nodeName") == node
    message = str(again.refusal["message"]).replace(node, "NODE")
    return {"bound": bound.status, "again": [again.status, again.get("reason"), message]}


def check_a_pods_place_cannot_be_written_directly(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    answer = api.patch("pods", "a", {"spec": {"nodeName": "anywhere"}})
    return [answer.status, answer.get("reason"), answer.get("details.causes.0.field")]


def check_an_eviction_deletes_a_pod(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    answer = api.request("POST", api.url("pods", "a", sub="eviction"), json=body)
    return {"answer": answer.pick("kind", "status"), "gone": api.gone("pods", "a")}
