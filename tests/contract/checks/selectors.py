"""Label and field selectors."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api
from tests.contract.manifests import configmap, pod


def _tiers(api: Api) -> None:
    for name, labels in {
        "a": {"tier": "one"},
        "b": {"tier": "two", "extra": ""},
        "c": {},
        "d": {"tier": "three"},
    }.items():
        api.create("configmaps", configmap(name, labels={**labels, "mine": "yes"}))


def check_labels_are_compared_for_equality(api: Api) -> Any:
    _tiers(api)
    texts = ("tier=one", "tier==two", "tier!=one,mine", "extra=", "tier=one,tier=two")
    return {
        text: api.list("configmaps", labelSelector=text).names for text in texts if text != "tier!=one,mine"
    } | {"not_one": api.list("configmaps", labelSelector="tier!=one,mine=yes").names}


def check_labels_are_compared_with_sets(api: Api) -> Any:
    _tiers(api)
    texts = (
        "tier in (one,two)",
        "tier notin (one),mine",
        "tier,mine",
        "!tier,mine",
        "tier in (one, three),!extra",
    )
    return {text: api.list("configmaps", labelSelector=text).names for text in texts}


def check_numbers_are_compared(api: Api) -> Any:
    for name, size in (("a", "3"), ("b", "12"), ("c", "many")):
        api.create("configmaps", configmap(name, labels={"size": size}))
    return [api.list("configmaps", labelSelector=text).names for text in ("size>5", "size<5", "size>2")]


def check_a_selector_that_cannot_be_read_is_refused(api: Api) -> Any:
    texts = ("tier in one", "=one", "tier=a b", "tier>x")
    answers = [api.list("configmaps", labelSelector=text) for text in texts]
    return [[answer.status, answer.get("reason")] for answer in answers]


def check_the_name_is_a_field_of_every_kind(api: Api) -> Any:
    _tiers(api)
    one = api.list("configmaps", fieldSelector="metadata.name=a")
    others = api.list("configmaps", fieldSelector="metadata.name!=a", labelSelector="mine")
    space = api.list("configmaps", ns="*", fieldSelector=f"metadata.namespace={api.ns},metadata.name=b")
    custom = api.list("cohorts", fieldSelector="metadata.name=absent")
    return [one.names, others.names, space.names, custom.names]


def check_pods_are_selected_by_their_fields(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    api.create("pods", pod("b", schedulerName="nobody", restartPolicy="Never"))
    texts = (
        "status.phase=Pending",
        "spec.nodeName=",
        "spec.restartPolicy=Never",
        "spec.schedulerName!=nobody",
    )
    return {text: api.list("pods", fieldSelector=text).names for text in texts}


def check_other_kinds_have_fields_of_their_own(api: Api) -> Any:
    api.create("secrets", {"metadata": {"name": "a"}, "type": "example.com/own"})
    typed = api.list("secrets", fieldSelector="type=example.com/own").names
    active = api.list("namespaces", fieldSelector=f"status.phase=Active,metadata.name={api.ns}").names
    return {"secret": typed, "namespace": active}


def check_an_unknown_field_is_refused(api: Api) -> Any:
    answers = {
        "core": api.list("pods", fieldSelector="spec.wonder=a"),
        "group": api.list("deployments", fieldSelector="spec.replicas=1"),
        "custom": api.list("clusterqueues", fieldSelector="spec.cohortName=a"),
        "broken": api.list("pods", fieldSelector="status.phase"),
    }
    return {what: answer.refusal for what, answer in answers.items()}


def check_events_are_selected_by_what_they_are_about(api: Api) -> Any:
    for name, about in (("e1", "a"), ("e2", "b")):
        involved = {"kind": "ConfigMap", "name": about, "namespace": api.ns, "apiVersion": "v1"}
        body = {"metadata": {"name": name}, "involvedObject": involved, "reason": "Seen", "type": "Normal"}
        assert api.create("events", body).status == 201
    texts = ("involvedObject.name=a", "involvedObject.kind=ConfigMap,reason=Seen", "type=Warning")
    return {text: api.list("events", fieldSelector=text).names for text in texts}
