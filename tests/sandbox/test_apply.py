"""Server-side apply: owners, conflicts, force, fields that are no longer applied, list keys from the
schema.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.managedfields.fieldsets import from_fields_v1, strip, to_fields_v1
from sandbox.api.meta.errors import ApiError
from tests.sample import examples

Obj = dict[str, Any]


def config(**data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        "data": data,
    }


def deployment(*containers: Obj, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


def managers(obj: Obj) -> dict[str, Obj]:
    return {item["manager"]: item for item in obj["metadata"]["managedFields"]}


def test_apply_creates_and_owns_only_what_was_applied(cluster: Cluster) -> None:
    made = cluster.client(manager="one").apply("configmaps", config(a="1"))
    owned = managers(made)["one"]
    assert owned["operation"] == "Apply"
    assert owned["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_another_managers_field_is_a_conflict_that_names_both(cluster: Cluster) -> None:
    cluster.client(manager="one").apply("configmaps", config(a="1"))
    with pytest.raises(ApiError) as refused:
        cluster.client(manager="two").apply("configmaps", config(a="2"), force=False)
    assert refused.value.code == 409
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert refused.value.status()["details"]["causes"][0]["reason"] == "FieldManagerConflict"


def test_force_takes_the_field_and_the_other_manager_loses_it(cluster: Cluster) -> None:
    cluster.client(manager="one").apply("configmaps", config(a="1", b="1"))
    taken = cluster.client(manager="two").apply("configmaps", config(a="2"), force=True)
    assert taken["data"] == {"a": "2", "b": "1"}
    assert managers(taken)["one"]["fieldsV1"] == {"f:data": {"f:b": {}}}
    assert managers(taken)["two"]["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_a_field_no_longer_applied_goes_unless_somebody_else_holds_it(cluster: Cluster) -> None:
    one, two = cluster.client(manager="one"), cluster.client(manager="two")
    one.apply("configmaps", config(a="1", b="1", c="1"))
    two.apply("configmaps", config(b="1"))
    left = one.apply("configmaps", config(c="1"))
    assert left["data"] == {"b": "1", "c": "1"}


def test_the_same_value_is_shared_without_conflict(cluster: Cluster) -> None:
    cluster.client(manager="one").apply("configmaps", config(a="1"))
    shared = cluster.client(manager="two").apply("configmaps", config(a="1"), force=False)
    assert set(managers(shared)) == {"one", "two"}


def test_an_identical_apply_makes_no_new_version(cluster: Cluster) -> None:
    client = cluster.client(manager="one")
    first = client.apply("configmaps", config(a="1"))["metadata"]["resourceVersion"]
    assert client.apply("configmaps", config(a="1"))["metadata"]["resourceVersion"] == first


def test_list_items_merge_by_the_keys_of_the_schema(cluster: Cluster) -> None:
    one, two = cluster.client(manager="one"), cluster.client(manager="two")
    one.apply("deployments.apps", deployment({"name": "main", "image": "x:1"}))
    both = two.apply(
        "deployments.apps",
        {
            **deployment({"name": "side", "image": "y:1"}),
            "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "y:1"}]}}},
        },
    )
    assert [item["name"] for item in both["spec"]["template"]["spec"]["containers"]] == ["side", "main"] or [
        item["name"] for item in both["spec"]["template"]["spec"]["containers"]
    ] == ["main", "side"]
    left = two.apply(
        "deployments.apps",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}},
    )
    assert [item["name"] for item in left["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_a_dropped_field_falls_back_to_its_default(cluster: Cluster) -> None:
    client = cluster.client(manager="one")
    client.apply("deployments.apps", deployment({"name": "main", "image": "x:1"}, replicas=4))
    back = client.apply("deployments.apps", deployment({"name": "main", "image": "x:1"}))
    assert back["spec"]["replicas"] == 1


def test_an_update_takes_over_what_it_changed(cluster: Cluster) -> None:
    cluster.client(manager="one").apply("configmaps", config(a="1", b="1"))
    changed = cluster.client(manager="editor").patch(
        "configmaps", "a", {"data": {"a": "9"}}, namespace="default"
    )
    assert managers(changed)["one"]["fieldsV1"] == {"f:data": {"f:b": {}}}
    assert managers(changed)["editor"]["operation"] == "Update"
    with pytest.raises(ApiError) as refused:
        cluster.client(manager="one").apply("configmaps", config(a="1", b="1"), force=False)
    assert 'conflict with "editor" using v1: .data.a' in refused.value.message


def test_status_is_applied_apart_from_spec(cluster: Cluster) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}}
    client = cluster.client(manager="one")
    client.apply("clusterqueues.kueue.x-k8s.io", {**queue, "spec": {"stopPolicy": "Hold"}})
    applied = client.apply(
        "clusterqueues.kueue.x-k8s.io", {**queue, "status": {"pendingWorkloads": 3}}, subresource="status"
    )
    assert applied["spec"]["stopPolicy"] == "Hold"
    assert applied["status"]["pendingWorkloads"] == 3
    assert {item.get("subresource", "") for item in applied["metadata"]["managedFields"]} == {"", "status"}


_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "f:data"])


@given(st.frozensets(st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple), min_size=1, max_size=12))
def test_any_set_of_paths_survives_fields_v1(paths: frozenset[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(paths)) == paths
    assert strip(paths) == paths


@settings(max_examples=examples(20), deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=6),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=6),
)
def test_two_forced_managers_always_end_with_the_union_of_what_they_apply(
    first: dict[str, str], second: dict[str, str]
) -> None:
    cluster = Cluster.in_memory(start=datetime(2026, 11, 21, tzinfo=UTC))
    cluster.client(manager="one").apply("configmaps", config(**first))
    both = cluster.client(manager="two").apply("configmaps", config(**second), force=True)
    assert both.get("data", {}) == {**first, **second}
    alone = cluster.client(manager="one").apply("configmaps", config(), force=True)
    assert alone.get("data", {}) == second
