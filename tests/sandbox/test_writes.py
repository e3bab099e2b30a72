"""Creating, replacing, patching and deleting: versions, defaults, refusals, finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.api.auth.users import User
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import copy_of
from sandbox.api.registry.generic import Options
from sandbox.api.storage.store import Place
from tests.sandbox.conftest import START

Obj = dict[str, Any]
MEMBER = User("member", ("system:authenticated",))


def pod(name: str = "p", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def config(name: str = "a", **data: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data or {"k": "v"}}


def refused(call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value


def test_a_new_object_gets_identity_defaults_and_an_owner(cluster: Cluster) -> None:
    made = cluster.client(manager="tester").create("pods", pod(), "default")
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1
    assert len(made["metadata"]["uid"]) == 36
    owned = made["metadata"]["managedFields"][0]
    assert owned["manager"] == "tester"
    assert 'k:{"name":"c"}' in owned["fieldsV1"]["f:spec"]["f:containers"]


def test_the_same_name_twice_is_a_409_and_a_missing_namespace_a_404(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("configmaps", config(), "default")
    again = refused(lambda: client.create("configmaps", config(), "default"))
    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert refused(lambda: client.create("configmaps", {"metadata": {"name": "a"}}, "nowhere")).code == 404


def test_a_stale_version_is_refused_and_the_stored_object_stays(cluster: Cluster) -> None:
    client = cluster.client()
    first = copy_of(client.create("configmaps", config(), "default"))
    client.patch("configmaps", "a", {"data": {"k": "new"}}, namespace="default")
    first["data"]["k"] = "stale"
    problem = refused(lambda: client.update("configmaps", first))
    assert (problem.code, problem.reason) == (409, "Conflict")
    assert client.get("configmaps", "a", "default")["data"] == {"k": "new"}  # type: ignore[index]


def test_a_write_that_changes_nothing_keeps_the_version(cluster: Cluster) -> None:
    client = cluster.client()
    before = client.create("configmaps", config(), "default")["metadata"]["resourceVersion"]
    after = client.patch("configmaps", "a", {"data": {"k": "v"}}, namespace="default")
    assert after["metadata"]["resourceVersion"] == before


def test_a_dry_run_stores_nothing(cluster: Cluster) -> None:
    kind = cluster.kinds.named("configmaps")
    cluster.registry.create(kind, "default", config("dry"), Options(MEMBER, dry_run=True))
    assert cluster.client().get("configmaps", "dry", "default") is None


def test_unknown_fields_are_dropped_warned_of_or_refused(cluster: Cluster) -> None:
    kind, body = cluster.kinds.named("configmaps"), {**config(), "colour": "red"}
    warned = Options(MEMBER, validation="Warn")
    assert "colour" not in cluster.registry.create(kind, "default", body, warned)
    assert warned.warnings == ['unknown field "colour"']
    strict = refused(
        lambda: cluster.registry.create(kind, "default", body, Options(MEMBER, validation="Strict"))
    )
    assert strict.code == 400
    assert 'strict decoding error: unknown field "colour"' in strict.message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {"name": "p"}, "spec": {}}, "spec.containers"),
        ({"metadata": {"name": "P"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}, "metadata.name"),
        (
            {
                "metadata": {"name": "p", "labels": {"a": "b c"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
            "metadata.labels",
        ),
        ({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}, "spec.containers[0].image"),
    ],
)
def test_broken_content_is_a_422_that_names_the_field(cluster: Cluster, body: Obj, field: str) -> None:
    problem = refused(lambda: cluster.client().create("pods", body, "default"))
    assert problem.code == 422
    assert field in [cause["field"] for cause in problem.status()["details"]["causes"]]


def test_a_generated_name_keeps_its_prefix(cluster: Cluster) -> None:
    names = {
        cluster.client().create("configmaps", {"metadata": {"generateName": "run-"}}, "default")["metadata"][
            "name"
        ]
        for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


def test_status_and_spec_are_written_apart(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("resourceflavors.kueue.x-k8s.io", {"metadata": {"name": "f"}, "spec": {}})
    made = client.create("pods", pod(), "default")
    client.update("pods", {**made, "status": {"phase": "Running"}})
    assert client.get("pods", "p", "default")["status"]["phase"] == "Pending"  # type: ignore[index]
    client.patch("pods", "p", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
    assert client.get("pods", "p", "default")["status"]["phase"] == "Running"  # type: ignore[index]


def test_the_generation_moves_with_the_spec_alone(cluster: Cluster) -> None:
    client = cluster.client()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    client.create("deployments.apps", body, "default")
    client.patch("deployments.apps", "d", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
    client.patch(
        "deployments.apps", "d", {"status": {"replicas": 1}}, namespace="default", subresource="status"
    )
    assert client.get("deployments.apps", "d", "default")["metadata"]["generation"] == 1  # type: ignore[index]
    client.patch("deployments.apps", "d", {"spec": {"replicas": 3}}, namespace="default")
    assert client.get("deployments.apps", "d", "default")["metadata"]["generation"] == 2  # type: ignore[index]


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(cluster: Cluster) -> None:
    client = cluster.client()
    body = config()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    client.create("configmaps", body, "default")
    client.delete("configmaps", "a", "default")
    held = client.get("configmaps", "a", "default")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    client.patch("configmaps", "a", {"metadata": {"finalizers": None}}, namespace="default")
    assert client.get("configmaps", "a", "default") is None


def test_a_delete_with_the_wrong_uid_is_a_conflict(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("configmaps", config(), "default")
    assert refused(lambda: client.delete("configmaps", "a", "default", uid="other")).code == 409
    assert client.get("configmaps", "a", "default") is not None


def test_a_pod_on_a_node_ends_gracefully_and_one_without_at_once(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("pods", pod("free"), "default")
    client.create("pods", pod("placed", nodeName="n1", terminationGracePeriodSeconds=7), "default")
    client.delete("pods", "free", "default")
    client.delete("pods", "placed", "default")
    assert client.get("pods", "free", "default") is None
    ending = client.get("pods", "placed", "default")
    assert ending is not None
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    client.delete("pods", "placed", "default", grace=0)
    assert client.get("pods", "placed", "default") is None


def test_fields_that_never_change_say_so(cluster: Cluster) -> None:
    client = cluster.client()
    spec = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "x"}}]}}
    client.create("resourceclaims.resource.k8s.io", {"metadata": {"name": "c"}, "spec": spec}, "default")
    change = {"spec": {"devices": {"requests": [{"name": "h", "exactly": {"deviceClassName": "y"}}]}}}
    problem = refused(
        lambda: client.patch("resourceclaims.resource.k8s.io", "c", change, namespace="default")
    )
    assert problem.code == 422
    assert "field is immutable" in problem.message


def test_two_clusters_in_memory_begin_alike_and_share_nothing(cluster: Cluster) -> None:
    other, crd = Cluster.in_memory(start=START), "customresourcedefinitions.apiextensions.k8s.io"
    assert other.store.version == cluster.store.version > 1
    assert other.ids.uid() == cluster.ids.uid()
    cluster.system.create("namespaces", {"metadata": {"name": "mine"}})
    name = next(cluster.store.entries(crd)).obj["metadata"]["name"]
    cluster.system.delete(crd, name)
    assert other.store.get("namespaces", Place("", "mine")) is None
    assert other.store.get(crd, Place("", name)) is not None
    assert other.kinds.named(name) is not None
    fresh = Cluster.in_memory(start=START)
    assert [fresh.store.version, fresh.store.count(crd)] == [other.store.version, other.store.count(crd)]
