"""JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

from typing import Any

from tests.contract.api import JSON_PATCH, STRATEGIC, Api
from tests.contract.manifests import IMAGE, configmap, pod_spec, replicated


def _with_containers(api: Api) -> None:
    body = replicated("a", replicas=0)
    body["spec"]["template"]["spec"] = pod_spec()
    body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": IMAGE, "args": ["x"]})
    assert api.create("deployments", body).status == 201


def _containers(body: Any) -> Any:
    listed = body["spec"]["template"]["spec"]["containers"]
    return [{key: entry[key] for key in ("name", "image", "args", "env") if key in entry} for entry in listed]


def check_a_json_patch_adds_replaces_and_removes(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "1", "gone": "x"}))
    steps = [
        {"op": "replace", "path": "/data/k", "value": "2"},
        {"op": "add", "path": "/data/n", "value": "3"},
        {"op": "remove", "path": "/data/gone"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "d"}},
        {"op": "add", "path": "/metadata/labels/x~1y", "value": "z"},
        {"op": "copy", "from": "/data/k", "path": "/data/copied"},
        {"op": "move", "from": "/data/n", "path": "/data/moved"},
    ]
    answer = api.patch("configmaps", "a", steps, media=JSON_PATCH)
    return answer.refusal if answer.status != 200 else answer.pick("data", "metadata.labels")


def check_a_json_patch_of_a_valid_list_position_is_applied(api: Api) -> Any:
    _with_containers(api)
    path = "/spec/template/spec/containers/1/args/-"
    answer = api.patch("deployments", "a", [{"op": "add", "path": path, "value": "y"}], media=JSON_PATCH)
    return _containers(answer.body)


def check_a_json_patch_whose_test_fails_changes_nothing(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "1"}))
    steps = [
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "test", "path": "/data/k", "value": "2"},
    ]
    answer = api.patch("configmaps", "a", steps, media=JSON_PATCH)
    assert answer.status == 422
    return {"refused": answer.refusal, "kept": api.read("configmaps", "a").pick("data")}


def check_a_json_patch_of_an_absent_place_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "1"}))
    remove = api.patch("configmaps", "a", [{"op": "remove", "path": "/data/absent"}], media=JSON_PATCH)
    replace = api.patch(
        "configmaps", "a", [{"op": "replace", "path": "/no/where", "value": 1}], media=JSON_PATCH
    )
    return {
        "remove": [remove.status, remove.get("reason")],
        "replace": [replace.status, replace.get("reason")],
    }


def check_a_patch_that_is_none_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    listed = api.patch("configmaps", "a", {"op": "add"}, media=JSON_PATCH)
    merge = api.patch("configmaps", "a", "[1]")
    broken = api.patch("configmaps", "a", "{")
    media = api.patch("configmaps", "a", {}, media="application/json")
    return {
        "json_patch": listed.status,
        "merge": merge.status,
        "broken": broken.status,
        "media": [media.status, media.get("reason"), media.get("message")],
    }


def check_a_merge_patch_removes_by_null_and_replaces_lists(api: Api) -> Any:
    _with_containers(api)
    api.create("configmaps", configmap("a", {"k": "1", "gone": "x"}))
    merged = api.patch("configmaps", "a", {"data": {"gone": None, "n": "2"}})
    only = {"spec": {"template": {"spec": {"containers": [{"name": "one", "image": IMAGE}]}}}}
    return {"map": merged.pick("data"), "list": _containers(api.patch("deployments", "a", only).body)}


def check_a_strategic_patch_merges_containers_by_name(api: Api) -> Any:
    _with_containers(api)
    containers = [{"name": "side", "image": f"{IMAGE}2"}, {"name": "third", "image": IMAGE}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    return _containers(api.patch("deployments", "a", patch, media=STRATEGIC).body)


def check_a_strategic_patch_deletes_an_entry_on_demand(api: Api) -> Any:
    _with_containers(api)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}}}
    return _containers(api.patch("deployments", "a", patch, media=STRATEGIC).body)


def check_a_strategic_patch_replaces_on_demand(api: Api) -> Any:
    _with_containers(api)
    containers = [{"$patch": "replace"}, {"name": "new", "image": IMAGE}]
    listed = {"spec": {"template": {"spec": {"containers": containers}}}}
    labels = {"metadata": {"labels": {"$patch": "replace", "only": "me"}}}
    first = api.patch("deployments", "a", listed, media=STRATEGIC)
    second = api.patch("deployments", "a", labels, media=STRATEGIC)
    return {"list": _containers(first.body), "map": second.pick("metadata.labels")}


def check_a_strategic_patch_orders_and_deletes_from_plain_lists(api: Api) -> Any:
    api.create("configmaps", configmap("a", finalizers=["example.com/a", "example.com/b"]))
    delete = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    one = api.patch("configmaps", "a", delete, media=STRATEGIC)
    add = {
        "metadata": {
            "finalizers": ["example.com/c"],
            "$setElementOrder/finalizers": ["example.com/c", "example.com/b"],
        }
    }
    two = api.patch("configmaps", "a", add, media=STRATEGIC)
    api.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    return [one.get("metadata.finalizers"), two.get("metadata.finalizers")]


def check_a_strategic_patch_retains_only_named_keys(api: Api) -> Any:
    _with_containers(api)
    strategy = {"$retainKeys": ["type"], "type": "Recreate"}
    answer = api.patch("deployments", "a", {"spec": {"strategy": strategy}}, media=STRATEGIC)
    return answer.pick("spec.strategy")


def check_a_strategic_patch_of_a_custom_resource_is_refused(api: Api) -> Any:
    name = api.name("cohort")
    api.create("cohorts", {"metadata": {"name": name}})
    return api.patch("cohorts", name, {"spec": {}}, media=STRATEGIC).refusal


def check_a_patch_that_breaks_the_rules_of_a_kind_is_refused(api: Api) -> Any:
    _with_containers(api)
    selector = api.patch("deployments", "a", {"spec": {"selector": {"matchLabels": {"app": "b"}}}})
    replicas = api.patch("deployments", "a", {"spec": {"replicas": -1}})
    image = api.patch("deployments", "a", {"spec": {"template": {"spec": {"containers": [{"name": "x"}]}}}})
    assert {selector.status, replicas.status, image.status} == {422}
    return {"selector": selector.refusal, "replicas": replicas.refusal, "image": image.refusal}
