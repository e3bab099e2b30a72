"""Garbage collection, namespaces, protected claims, definitions, quotas: what the built-in controllers do."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Manager
from sandbox.api.http.server import Server
from sandbox.api.meta.errors import ApiError

Built = tuple[Cluster, Server, Manager]
Obj = dict[str, Any]


def owned(name: str, owner: Obj, **more: Any) -> Obj:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


def test_what_an_owner_leaves_behind_is_collected(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    owner = client.create("configmaps", {"metadata": {"name": "owner"}}, "default")
    client.create("configmaps", owned("child", owner), "default")
    client.delete("configmaps", "owner", "default")
    manager.drain()
    assert client.get("configmaps", "child", "default") is None


def test_an_orphan_is_let_go_and_stays(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    owner = client.create("configmaps", {"metadata": {"name": "owner"}}, "default")
    client.create("configmaps", owned("child", owner), "default")
    client.delete("configmaps", "owner", "default", propagation="Orphan")
    manager.drain()
    child = client.get("configmaps", "child", "default")
    assert child is not None
    assert "ownerReferences" not in child["metadata"]
    assert client.get("configmaps", "owner", "default") is None


def test_foreground_deletion_waits_for_the_blocking_child(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    owner = client.create("configmaps", {"metadata": {"name": "owner"}}, "default")
    body = owned("child", owner, blockOwnerDeletion=True)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    client.create("configmaps", body, "default")
    client.delete("configmaps", "owner", "default", propagation="Foreground")
    manager.drain()
    assert client.get("configmaps", "owner", "default") is not None
    client.patch("configmaps", "child", {"metadata": {"finalizers": None}}, namespace="default")
    manager.drain()
    assert client.get("configmaps", "owner", "default") is None


def test_a_namespace_takes_everything_with_it_and_says_what_holds_it(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    client.create("namespaces", {"metadata": {"name": "team"}})
    manager.drain()
    assert client.get("serviceaccounts", "default", "team") is not None
    client.create("configmaps", {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}, "team")
    client.create("configmaps", {"metadata": {"name": "free"}}, "team")
    client.delete("namespaces", "team")
    manager.advance(2)
    ending = client.get("namespaces", "team")
    assert ending is not None
    messages = [item["message"] for item in ending["status"]["conditions"]]
    assert any("example.com/hold in 1 resource instances" in text for text in messages)
    with pytest.raises(ApiError) as refused:
        client.create("configmaps", {"metadata": {"name": "late"}}, "team")
    assert refused.value.code == 403
    client.patch("configmaps", "held", {"metadata": {"finalizers": None}}, namespace="team")
    manager.advance(3)
    assert client.get("namespaces", "team") is None


def test_a_claim_in_use_outlives_its_deletion(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    client.create("persistentvolumeclaims", {"metadata": {"name": "home"}, "spec": spec}, "default")
    volume = {"name": "home", "persistentVolumeClaim": {"claimName": "home"}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"volumes": [volume], "containers": [{"name": "c", "image": "x"}]},
    }
    client.create("pods", pod, "default")
    client.delete("persistentvolumeclaims", "home", "default")
    manager.drain()
    assert client.get("persistentvolumeclaims", "home", "default") is not None
    client.delete("pods", "p", "default")
    manager.drain()
    assert client.get("persistentvolumeclaims", "home", "default") is None


def definition() -> Obj:
    size = {"type": "integer", "minimum": 1}
    mode = {"type": "string", "default": "fast", "enum": ["fast", "slow"]}
    rule = {"rule": "self.mode != 'slow' || self.size < 5", "message": "slow things are small"}
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {"size": size, "mode": mode},
        "x-kubernetes-validations": [rule],
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_a_defined_kind_has_defaults_pruning_and_rules(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    client.create("customresourcedefinitions.apiextensions.k8s.io", definition())
    manager.drain()
    made = client.create(
        "things.example.com", {"metadata": {"name": "a"}, "spec": {"size": 3, "extra": 1}}, "default"
    )
    assert made["spec"] == {"size": 3, "mode": "fast"}
    for spec, text in (
        ({"size": 0}, "spec.size in body should be greater than or equal to 1"),
        ({"size": 2, "mode": "x"}, 'supported values: "fast", "slow"'),
        ({}, "spec.size: Required value"),
        ({"size": 9, "mode": "slow"}, "slow things are small"),
    ):
        body = {"metadata": {"name": "b"}, "spec": spec}
        with pytest.raises(ApiError) as refused:
            client.create("things.example.com", body, "default")
        assert refused.value.code == 422
        assert text in refused.value.message


def test_deleting_a_definition_deletes_its_objects(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    client.create("customresourcedefinitions.apiextensions.k8s.io", definition())
    manager.drain()
    client.create("things.example.com", {"metadata": {"name": "a"}, "spec": {"size": 3}}, "default")
    client.delete("customresourcedefinitions.apiextensions.k8s.io", "things.example.com")
    manager.advance(2)
    assert cluster.kinds.find("things.example.com") is None
    assert cluster.store.count("things.example.com") == 0


def test_a_quota_counts_and_refuses(built: Built) -> None:
    cluster, _, manager = built
    client = cluster.client()
    hard = {"count/configmaps": "2", "requests.nvidia.com/gpu": "1"}
    client.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "default")
    manager.drain()
    gpu = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    client.create("pods", {"metadata": {"name": "one"}, "spec": {"containers": [gpu]}}, "default")
    with pytest.raises(ApiError) as refused:
        client.create("pods", {"metadata": {"name": "two"}, "spec": {"containers": [gpu]}}, "default")
    assert (
        "exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1"
        in refused.value.message
    )
    manager.drain()
    assert client.get("resourcequotas", "q", "default")["status"]["used"]["requests.nvidia.com/gpu"] == "1"  # type: ignore[index]


def test_a_limit_range_fills_in_what_a_pod_leaves_out(built: Built) -> None:
    cluster, _, _ = built
    client = cluster.client()
    limits = [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "2"}}
    ]
    client.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}}, "default")
    made = client.create(
        "pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}, "default"
    )
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
    big = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}
    with pytest.raises(ApiError) as refused:
        client.create("pods", {"metadata": {"name": "q"}, "spec": {"containers": [big]}}, "default")
    assert "maximum cpu usage per Container is 2" in refused.value.message


def test_a_restricted_namespace_refuses_a_pod_that_asks_for_more(built: Built) -> None:
    cluster, _, _ = built
    client = cluster.client()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.create("namespaces", {"metadata": {"name": "safe", "labels": labels}})
    with pytest.raises(ApiError) as refused:
        client.create(
            "pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}, "safe"
        )
    assert 'violates PodSecurity "restricted:latest"' in refused.value.message
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "x", "securityContext": security}],
    }
    assert (
        client.create("pods", {"metadata": {"name": "p"}, "spec": spec}, "safe")["status"]["phase"]
        == "Pending"
    )
