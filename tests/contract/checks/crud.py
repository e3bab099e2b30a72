"""Create, read, list, delete; names, namespaces, field validation, dry run, generated names, encodings."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.contract.api import Api
from tests.contract.manifests import configmap, pod


def check_a_created_object_gets_the_servers_fields(api: Api) -> Any:
    answer = api.create("configmaps", configmap("a", {"k": "v"}))
    assert answer.status == 201
    assert answer.version.isdigit()
    return {"body": answer.pick("kind", "apiVersion", "data"), "metadata": sorted(answer.body["metadata"])}


def check_a_second_object_of_the_same_name_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    again = api.create("configmaps", configmap("a"))
    assert again.status == 409
    return again.refusal


def check_an_absent_object_is_not_found(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    answers = {
        "core": api.read("configmaps", "b"),
        "group": api.read("jobs", "b"),
        "custom": api.read("workloads", "b"),
        "delete": api.delete("configmaps", "b"),
        "patch": api.patch("configmaps", "b", {"data": {"k": "v"}}),
    }
    return {what: {**answer.refusal, "details": answer.get("details")} for what, answer in answers.items()}


def check_a_namespace_that_is_absent_takes_nothing(api: Api) -> Any:
    answer = api.create("configmaps", configmap("a"), ns="absent-namespace")
    listed = api.list("configmaps", ns="absent-namespace")
    assert answer.status == 404
    return {"create": answer.refusal, "list": listed.pick("kind", "items")}


def check_names_are_checked_by_the_rule_of_their_kind(api: Api) -> Any:
    wrong = {
        "configmaps": api.create("configmaps", configmap("Upper_Case")),
        "namespaces": api.create("namespaces", {"metadata": {"name": "dots.are.no"}}),
        "services": api.create(
            "services", {"metadata": {"name": "two.words"}, "spec": {"ports": [{"port": 80}]}}
        ),
    }
    assert {answer.status for answer in wrong.values()} == {422}
    return {resource: answer.refusal for resource, answer in wrong.items()}


def check_an_object_without_a_name_is_refused(api: Api) -> Any:
    return api.create("configmaps", {"metadata": {}}).refusal


def check_labels_and_annotations_are_checked(api: Api) -> Any:
    label = api.create("configmaps", configmap("a", labels={"k": "not a value!"}))
    key = api.create("configmaps", configmap("a", labels={"a/b/c": "v"}))
    number = api.create("configmaps", {"metadata": {"name": "a", "labels": {"k": 1}}})
    return {"value": label.refusal, "key": key.refusal, "number": number.status}


def check_a_generated_name_has_five_letters_more(api: Api) -> Any:
    answer = api.create("configmaps", {"metadata": {"generateName": "made-"}})
    name = answer.body["metadata"]["name"]
    assert re.fullmatch(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}", name), name
    return answer.pick("metadata.generateName")


def check_the_body_must_fit_the_address(api: Api) -> Any:
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    version = {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}
    space = configmap("a", namespace="default")
    url = api.url("configmaps")
    return {
        "kind": api.request("POST", url, json=other).refusal,
        "version": api.request("POST", url, json=version).status,
        "namespace": api.create("configmaps", space).refusal,
        "name": api.replace("configmaps", "b", configmap("a")).refusal,
    }


def check_a_body_that_cannot_be_read_is_refused(api: Api) -> Any:
    headers = {"Content-Type": "application/json"}
    broken = api.request("POST", api.url("configmaps"), content='{"kind": ', headers=headers)
    empty = api.request("POST", api.url("configmaps"), content="", headers=headers)
    media = api.request("POST", api.url("configmaps"), content="a=b", headers={"Content-Type": "text/plain"})
    assert broken.status == 400
    return {"broken": [broken.status, broken.get("reason")], "empty": empty.status, "media": media.refusal}


def check_a_field_of_the_wrong_type_is_refused(api: Api) -> Any:
    body = pod("a")
    body["spec"]["containers"] = "main"
    answer = api.create("pods", body)
    return [answer.status, answer.get("reason")]


def check_yaml_is_read_and_written(api: Api) -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap("a", {"k": "v"})}
    headers = {"Content-Type": "application/yaml"}
    created = api.request("POST", api.url("configmaps"), content=yaml.safe_dump(body), headers=headers)
    read = api.request("GET", api.url("configmaps", "a"), headers={"Accept": "application/yaml"})
    assert created.status == 201
    return yaml.safe_load(read.body)["data"]


def check_unknown_fields_warn_or_fail_as_asked(api: Api) -> Any:
    body = {**configmap("a"), "wonder": True}
    deep = pod("p")
    deep["spec"]["containers"][0]["wonder"] = 1
    strict = api.create("configmaps", body, fieldValidation="Strict")
    inner = api.create("pods", deep, fieldValidation="Strict")
    warned = api.create("configmaps", body, fieldValidation="Warn")
    ignored = api.create("configmaps", {**body, "metadata": {"name": "b"}}, fieldValidation="Ignore")
    assert strict.status == 400
    assert "wonder" not in warned.body
    return {
        "strict": strict.refusal,
        "inner": inner.refusal,
        "warned": [warned.status, *warned.warnings],
        "ignored": [ignored.status, *ignored.warnings],
    }


def check_a_dry_run_answers_and_stores_nothing(api: Api) -> Any:
    made = api.create("configmaps", configmap("a"), dryRun="All")
    absent = api.read("configmaps", "a")
    api.create("configmaps", configmap("b", {"k": "v"}))
    patched = api.patch("configmaps", "b", {"data": {"k": "w"}}, dryRun="All")
    deleted = api.delete("configmaps", "b", dryRun="All")
    kept = api.read("configmaps", "b")
    assert (absent.status, kept.status) == (404, 200)
    answers = [made.status, patched.pick("data"), deleted.pick("kind"), kept.pick("data")]
    return {"answers": answers, "wrong": api.create("configmaps", configmap("c"), dryRun="Some").refusal}


def check_a_resource_version_may_not_be_set_at_creation(api: Api) -> Any:
    return api.create("configmaps", configmap("a", resourceVersion="7")).refusal


def check_a_deletion_answers_with_what_went(api: Api) -> Any:
    created = api.create("configmaps", configmap("a"))
    gone = api.delete("configmaps", "a")
    assert gone.get("details.uid") == created.uid
    assert api.read("configmaps", "a").status == 404
    return gone.pick("kind", "details.name", "details.kind")


def check_a_deletion_may_insist_on_what_it_deletes(api: Api) -> Any:
    uid = "00000000-0000-0000-0000-000000000000"
    created = api.create("configmaps", configmap("a"))
    other = api.delete("configmaps", "a", body={"preconditions": {"uid": uid}})
    stale = api.delete("configmaps", "a", body={"preconditions": {"resourceVersion": "1"}})
    right = api.delete("configmaps", "a", body={"preconditions": {"uid": created.uid}})
    message = stale.refusal["message"].replace(created.version, "NUMBER")
    return {"uid": other.refusal, "version": [stale.status, message], "right": right.status}


def check_a_collection_is_deleted_by_selector(api: Api) -> Any:
    for name, tier in (("a", "one"), ("b", "one"), ("c", "two")):
        api.create("configmaps", configmap(name, labels={"tier": tier}))
    answer = api.delete("configmaps", labelSelector="tier=one")
    left = api.list("configmaps", labelSelector="tier").names
    assert left == ["c"]
    return {"kind": answer.get("kind"), "gone": answer.names}


def check_lists_are_sorted_by_namespace_and_name(api: Api) -> Any:
    second = api.namespace("second")
    for name in ("b", "a", "c"):
        api.create("configmaps", configmap(name, labels={"run": api.ns}))
    api.create("configmaps", configmap("aa", labels={"run": api.ns}), ns=second)
    answer = api.list("configmaps", ns="*", labelSelector=f"run={api.ns}")
    item = answer.body["items"][0]
    return {"names": answer.names, "kind": answer.get("kind"), "item_says_its_kind": "kind" in item}


def check_a_secret_takes_plain_text_and_keeps_bytes(api: Api) -> Any:
    answer = api.create(
        "secrets", {"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"o": "bw=="}}
    )
    wrong = api.create("secrets", {"metadata": {"name": "b"}, "data": {"k": "no base64!"}})
    return {"kept": answer.pick("data", "type", "stringData"), "wrong": wrong.status}


def check_what_is_marked_immutable_stays(api: Api) -> Any:
    api.create("configmaps", {**configmap("a", {"k": "v"}), "immutable": True})
    data = api.patch("configmaps", "a", {"data": {"k": "w"}})
    label = api.patch("configmaps", "a", {"metadata": {"labels": {"l": "m"}}})
    back = api.patch("configmaps", "a", {"immutable": False})
    return {"data": data.refusal, "label": label.status, "back": back.refusal}


def check_a_service_gets_an_address_that_stays(api: Api) -> Any:
    spec = {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}
    answer = api.create("services", {"metadata": {"name": "a"}, "spec": spec})
    headless = api.create("services", {"metadata": {"name": "b"}, "spec": {**spec, "clusterIP": "None"}})
    assert answer.get("spec.clusterIP").startswith("10.96.")
    other = api.patch("services", "a", {"spec": {"clusterIP": "10.96.0.250"}})
    fields = (
        "spec.type",
        "spec.sessionAffinity",
        "spec.ports",
        "spec.ipFamilyPolicy",
        "spec.internalTrafficPolicy",
    )
    return {"a": answer.pick(*fields), "b": headless.pick("spec.clusterIP"), "other": other.status}


def check_a_table_has_the_columns_of_the_kind(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "v", "l": "w"}))
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    answer = api.request("GET", api.url("configmaps", "a"), headers=headers)
    columns = [
        [column["name"], column["type"], column["priority"]] for column in answer.body["columnDefinitions"]
    ]
    row = answer.body["rows"][0]
    return {
        "kind": answer.get("kind"),
        "columns": columns,
        "cells": row["cells"][:2],
        "row": row["object"]["kind"],
    }
