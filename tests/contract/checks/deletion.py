"""Finalizers, owner references, propagation, and the life of a namespace."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import conditions
from tests.contract.api import JSON_PATCH, Api
from tests.contract.manifests import configmap, pod


def _owned(api: Api, name: str, owner: str, uid: str, **reference: Any) -> None:
    entry = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, **reference}
    assert api.create("configmaps", configmap(name, ownerReferences=[entry])).status == 201


def check_a_finalizer_holds_an_object(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "v"}, finalizers=["example.com/hold"]))
    deleted = api.delete("configmaps", "a")
    held = api.read("configmaps", "a")
    assert held.get("metadata.deletionTimestamp")
    added = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}]
    more = api.patch("configmaps", "a", added, media=JSON_PATCH)
    label = api.patch("configmaps", "a", {"metadata": {"labels": {"l": "m"}}})
    freed = api.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    fields = ("kind", "metadata.deletionGracePeriodSeconds", "metadata.finalizers")
    seen = {
        "deleted": deleted.pick(*fields),
        "more": more.refusal,
        "label": label.status,
        "freed": freed.status,
    }
    return {**seen, "after": api.read("configmaps", "a").status}


def check_a_finalizer_needs_a_name_with_a_domain(api: Api) -> Any:
    answer = api.create("configmaps", configmap("a", finalizers=["hold"]))
    other = api.create("configmaps", configmap("b", finalizers=["not a name"]))
    return {"plain": [answer.status, *answer.warnings], "spaces": other.refusal}


def check_what_an_owner_made_goes_with_it(api: Api) -> Any:
    owner = api.create("configmaps", configmap("owner"))
    _owned(api, "part", "owner", owner.uid)
    answer = api.delete("configmaps", "owner", propagationPolicy="Background")
    return [answer.status, api.gone("configmaps", "part")]


def check_an_owner_waits_for_its_parts_in_the_foreground(api: Api) -> Any:
    owner = api.create("configmaps", configmap("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    held = configmap(
        "part", ownerReferences=[{**reference, "blockOwnerDeletion": True}], finalizers=["example.com/hold"]
    )
    api.create("configmaps", held)
    answer = api.delete("configmaps", "owner", propagationPolicy="Foreground")
    api.wait("configmaps", "part", lambda part: part["metadata"].get("deletionTimestamp"))
    waiting = api.read("configmaps", "owner")
    api.patch("configmaps", "part", {"metadata": {"finalizers": None}})
    return [
        answer.get("metadata.finalizers"),
        waiting.pick("metadata.finalizers"),
        api.gone("configmaps", "owner"),
    ]


def check_parts_may_be_orphaned(api: Api) -> Any:
    owner = api.create("configmaps", configmap("owner"))
    _owned(api, "part", "owner", owner.uid)
    api.delete("configmaps", "owner", propagationPolicy="Orphan")
    api.gone("configmaps", "owner")
    part = api.wait("configmaps", "part", lambda body: not body["metadata"].get("ownerReferences"))
    return part["metadata"]["name"]


def check_a_part_of_an_absent_owner_goes(api: Api) -> Any:
    _owned(api, "part", "absent", "00000000-0000-0000-0000-00000000abcd")
    return api.gone("configmaps", "part")


def check_a_part_stays_while_one_owner_is_left(api: Api) -> Any:
    uids = {name: api.create("configmaps", configmap(name)).uid for name in ("one", "two")}
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid} for name, uid in uids.items()
    ]
    api.create("configmaps", configmap("part", ownerReferences=owners))
    api.delete("configmaps", "one", propagationPolicy="Background")
    part = api.wait("configmaps", "part", lambda body: len(body["metadata"]["ownerReferences"]) == 1)
    return [owner["name"] for owner in part["metadata"]["ownerReferences"]]


def check_an_owner_reference_must_be_whole(api: Api) -> Any:
    answer = api.create("configmaps", configmap("a", ownerReferences=[{"kind": "ConfigMap", "name": "x"}]))
    two = [{"apiVersion": "v1", "kind": "Secret", "name": n, "uid": n, "controller": True} for n in "xy"]
    return {
        "part": answer.refusal,
        "two": api.create("configmaps", configmap("b", ownerReferences=two)).refusal,
    }


def check_a_propagation_that_is_none_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    answer = api.delete("configmaps", "a", propagationPolicy="Sideways")
    return [answer.status, answer.get("reason")]


def check_a_namespace_comes_with_its_own_things(api: Api) -> Any:
    read = api.read("namespaces", api.ns)
    api.wait("configmaps", "kube-root-ca.crt", lambda body: body["data"]["ca.crt"])
    labels, wanted = read.get("metadata.labels"), {"kubernetes.io/metadata.name": api.ns}
    assert labels == wanted
    renamed = api.patch("namespaces", api.ns, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}})
    return {
        "seen": read.pick("spec.finalizers", "status.phase"),
        "renamed": [renamed.status, renamed.get("metadata.labels")],
    }


def check_a_namespace_takes_its_content_along(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    api.create("pods", pod("p", schedulerName="nobody"))
    answer = api.delete("namespaces", api.ns)
    ended = answer.pick("kind", "status.phase", "spec.finalizers")
    return {
        "answer": ended,
        "gone": api.gone("namespaces", api.ns, 200),
        "list": api.list("configmaps").names,
    }


def check_an_ending_namespace_takes_nothing_new(api: Api) -> Any:
    api.create("configmaps", configmap("held", finalizers=["example.com/hold"]))
    api.delete("namespaces", api.ns)
    refused = api.create("configmaps", configmap("late"))
    told = api.wait("namespaces", api.ns, lambda body: len(conditions(body)) == 5)
    seen = conditions(told, "reason")
    api.patch("configmaps", "held", {"metadata": {"finalizers": None}})
    assert refused.status == 403
    return {"late": refused.refusal, "conditions": seen, "gone": api.gone("namespaces", api.ns, 200)}


def check_the_first_namespaces_cannot_be_deleted(api: Api) -> Any:
    return {name: api.delete("namespaces", name).refusal for name in ("default", "kube-system")}


def check_a_second_deletion_of_a_held_object_is_quiet(api: Api) -> Any:
    api.create("configmaps", configmap("a", finalizers=["example.com/hold"]))
    first, second = api.delete("configmaps", "a"), api.delete("configmaps", "a")
    api.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    same = first.get("metadata.deletionTimestamp") == second.get("metadata.deletionTimestamp")
    return [first.status, second.status, same]
