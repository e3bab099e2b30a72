"""Server-side apply: who owns which field, conflicts, force, and what is no longer applied."""

from __future__ import annotations

import re
from typing import Any

from tests.contract.answers import Answer
from tests.contract.api import APPLY, Api
from tests.contract.manifests import IMAGE, configmap, replicated

CONTROLLER = re.compile("controller|kueue")


def _owners(answer: Answer) -> list[Any]:
    """What the check's own managers own, sorted; controllers write when they like."""
    entries = [
        entry
        for entry in answer.get("metadata.managedFields") or []
        if not CONTROLLER.search(entry["manager"])
    ]
    timeless = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
    return sorted(
        timeless, key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", ""))
    )


def _deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = replicated("a", replicas=0, **spec)
    body["spec"]["template"]["spec"] = {"containers": list(containers)}
    del body["metadata"]
    return body


def check_applying_creates_and_notes_the_owner(api: Api) -> Any:
    answer = api.apply("configmaps", "a", {"data": {"k": "v"}, "metadata": {"labels": {"l": "m"}}})
    assert answer.status == 201
    return _owners(answer)


def check_applying_the_same_again_changes_nothing(api: Api) -> Any:
    first = api.apply("configmaps", "a", {"data": {"k": "v"}})
    second = api.apply("configmaps", "a", {"data": {"k": "v"}})
    assert second.version == first.version
    return [first.status, second.status]


def check_applying_another_value_of_anothers_field_conflicts(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    answer = api.apply("configmaps", "a", {"data": {"k": "2", "m": "2"}}, manager="two")
    assert answer.status == 409
    return answer.refusal


def check_force_takes_the_field_over(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    answer = api.apply("configmaps", "a", {"data": {"k": "2"}}, manager="two", force="true")
    return {"data": answer.get("data"), "owners": _owners(answer)}


def check_the_same_value_is_owned_by_both(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1"}})
    return _owners(api.apply("configmaps", "a", {"data": {"k": "1"}}, manager="two"))


def check_a_field_no_longer_applied_is_removed(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    answer = api.apply("configmaps", "a", {"data": {"k": "1"}})
    return {"data": answer.get("data"), "owners": _owners(answer)}


def check_a_shared_field_no_longer_applied_by_one_stays(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    api.apply("configmaps", "a", {"data": {"m": "1"}}, manager="two")
    answer = api.apply("configmaps", "a", {"data": {"k": "1"}})
    return {"data": answer.get("data"), "owners": _owners(answer)}


def check_an_owner_of_nothing_leaves_the_record(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1"}})
    api.apply("configmaps", "a", {"data": {"m": "1"}}, manager="two")
    answer = api.apply("configmaps", "a", {}, manager="two")
    return {"data": answer.get("data"), "owners": _owners(answer)}


def check_an_update_owns_what_it_changed(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    patched = api.patch("configmaps", "a", {"data": {"k": "2"}}, fieldManager="three")
    back = api.apply("configmaps", "a", {"data": {"k": "1", "m": "1"}})
    return {"owners": _owners(patched), "back": back.refusal}


def check_a_client_without_a_name_is_called_by_its_agent(api: Api) -> Any:
    headers = {"User-Agent": "wanderer/1.0"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap("a", {"k": "v"})}
    return _owners(api.request("POST", api.url("configmaps"), json=body, headers=headers))


def check_a_creation_owns_what_it_wrote(api: Api) -> Any:
    body = configmap("a", {"k": "v"}, labels={"l": "m"}, annotations={"n": "o"}, finalizers=["example.com/a"])
    answer = api.create("configmaps", body, fieldManager="maker")
    api.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    return _owners(answer)


def check_two_owners_share_a_list_of_containers(api: Api) -> Any:
    api.apply("deployments", "a", _deployment({"name": "main", "image": IMAGE}))
    body = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": IMAGE}]}}}}
    both = api.apply("deployments", "a", body, manager="two")
    names = [entry["name"] for entry in both.get("spec.template.spec.containers")]
    alone = api.apply("deployments", "a", {"spec": {}}, manager="two")
    left = [entry["name"] for entry in alone.get("spec.template.spec.containers")]
    return {"both": names, "owners": _owners(both), "left": left}


def check_a_list_keyed_by_two_fields_merges(api: Api) -> Any:
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    first = api.apply("deployments", "a", _deployment({"name": "main", "image": IMAGE, "ports": ports}))
    port = {"containerPort": 81, "name": "more"}
    containers = [{"name": "main", "ports": [port]}]
    second = api.apply(
        "deployments", "a", {"spec": {"template": {"spec": {"containers": containers}}}}, manager="two"
    )
    return {"ports": second.get("spec.template.spec.containers.0.ports"), "owners": _owners(first)}


def check_an_entry_twice_in_a_keyed_list_is_refused(api: Api) -> Any:
    body = _deployment({"name": "main", "image": IMAGE}, {"name": "main", "image": IMAGE})
    return api.apply("deployments", "a", body).refusal


def check_a_set_is_owned_entry_by_entry(api: Api) -> Any:
    api.apply("configmaps", "a", {"metadata": {"finalizers": ["example.com/one"]}})
    second = api.apply("configmaps", "a", {"metadata": {"finalizers": ["example.com/two"]}}, manager="two")
    third = api.apply("configmaps", "a", {"metadata": {}})
    api.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    return {
        "both": second.get("metadata.finalizers"),
        "owners": _owners(second),
        "left": third.get("metadata.finalizers"),
    }


def check_an_atomic_list_has_one_owner(api: Api) -> Any:
    one = {"name": "main", "image": IMAGE, "args": ["a", "b"]}
    api.apply("deployments", "a", _deployment(one))
    containers = [{"name": "main", "args": ["c"]}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    refused = api.apply("deployments", "a", body, manager="two")
    forced = api.apply("deployments", "a", body, manager="two", force="true")
    return {"refused": refused.refusal, "args": forced.get("spec.template.spec.containers.0.args")}


def check_defaults_have_no_owner(api: Api) -> Any:
    answer = api.apply("deployments", "a", _deployment({"name": "main", "image": IMAGE}))
    assert answer.get("spec.strategy.type") == "RollingUpdate"
    return _owners(answer)


def check_the_status_is_applied_by_its_own_address(api: Api) -> Any:
    api.apply("resourcequotas", "a", {"spec": {"hard": {"pods": "4"}}})
    status = {"status": {"hard": {"example.com/a": "1"}}, "spec": {"hard": {"pods": "9"}}}
    answer = api.apply("resourcequotas", "a", status, manager="two", sub="status", force="true")
    mine = [entry for entry in _owners(answer) if entry["manager"] in ("one", "two")]
    return {"spec": answer.get("spec"), "status": answer.status, "owners": mine}


def check_a_custom_resource_is_applied_by_its_schema(api: Api) -> Any:
    name = api.name("cohort")
    quota = {"name": "cpu", "nominalQuota": "3"}
    flavor = {"name": "any", "resources": [quota]}
    group = {"coveredResources": ["cpu"], "flavors": [flavor]}
    first = api.apply("cohorts", name, {"spec": {"resourceGroups": [group]}})
    second = api.apply("cohorts", name, {"spec": {"fairSharing": {"weight": "2"}}}, manager="two")
    return {"status": first.status, "spec": second.get("spec"), "owners": _owners(second)}


def check_an_apply_must_say_who_applies(api: Api) -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap("a")}
    nobody = api.patch("configmaps", "a", body, media=APPLY)
    owned = api.apply("configmaps", "a", {"metadata": {"managedFields": [{"manager": "one"}]}})
    named = api.apply("configmaps", "a", {"metadata": {"name": "b"}})
    return {"nobody": nobody.refusal, "owned": owned.refusal, "named": named.refusal}


def check_an_apply_needs_its_kind_and_known_fields(api: Api) -> Any:
    kindless = api.patch("configmaps", "a", {"data": {}}, media=APPLY, fieldManager="one")
    unknown = api.apply("configmaps", "a", {"wonder": True})
    return {
        "kindless": [kindless.status, kindless.get("reason")],
        "unknown": [unknown.status, unknown.get("message")],
    }


def check_an_apply_of_a_stale_version_conflicts(api: Api) -> Any:
    first = api.apply("configmaps", "a", {"data": {"k": "1"}})
    api.apply("configmaps", "a", {"data": {"k": "2"}})
    body = {"data": {"k": "3"}, "metadata": {"resourceVersion": first.version}}
    absent = api.apply("configmaps", "b", {"metadata": {"resourceVersion": first.version}})
    return {"stale": api.apply("configmaps", "a", body).refusal, "absent": absent.refusal}


def check_a_dry_apply_tells_the_conflict_and_stores_nothing(api: Api) -> Any:
    made = api.apply("configmaps", "a", {"data": {"k": "1"}}, dryRun="All")
    absent = api.read("configmaps", "a")
    api.apply("configmaps", "a", {"data": {"k": "1"}})
    conflict = api.apply("configmaps", "a", {"data": {"k": "2"}}, manager="two", dryRun="All")
    return [made.status, absent.status, conflict.status, api.read("configmaps", "a").get("data")]


def check_the_record_of_owners_can_be_cleared(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1"}})
    cleared = api.patch("configmaps", "a", {"metadata": {"managedFields": [{}]}})
    after = api.apply("configmaps", "a", {"data": {"k": "2"}}, manager="two")
    return {"cleared": _owners(cleared), "after": after.refusal}


def check_applying_null_removes_nothing_of_others(api: Api) -> Any:
    api.apply("configmaps", "a", {"data": {"k": "1"}, "metadata": {"annotations": {"n": "o"}}})
    other = api.apply("configmaps", "a", {"metadata": {"annotations": {"p": "q"}}}, manager="two")
    after = api.apply("configmaps", "a", {"data": {"k": "1"}})
    return [other.get("metadata.annotations"), after.get("metadata.annotations")]
