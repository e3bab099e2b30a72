"""Kinds of one's own: discovery, defaults, pruning, validation, subresources, columns, removal."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Answer, Body, conditions, pick
from tests.contract.api import APPLY, Api

SPEC: Body = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "replicas": {"type": "integer"},
        "tags": {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
            "maxItems": 3,
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "weight": {"type": "integer", "default": 1}},
            },
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.size < 9 || self.colour == 'green'", "message": "nine is green"},
        {"rule": "!has(oldSelf.code) || self.code == oldSelf.code", "message": "code stays"},
    ],
}


class Wonders:
    """A kind that one check defines, and requests for its objects."""

    def __init__(self, api: Api, *, spec: Body | None = None, **version: Any) -> None:
        self.api = api
        self.group = f"{api.name('crd')}.example.com"
        schema = {
            "type": "object",
            "properties": {
                "spec": spec or SPEC,
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
        served = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            **version,
        }
        self.body: Body = {
            "metadata": {"name": f"wonders.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "wonders", "singular": "wonder", "kind": "Wonder", "shortNames": ["wd"]},
                "versions": [served],
            },
        }
        self.created = api.create("customresourcedefinitions", self.body)

    def ready(self) -> Wonders:
        """Wait until the kind is served."""
        self.api.wait(
            "customresourcedefinitions",
            f"wonders.{self.group}",
            lambda body: conditions(body).get("Established") == "True",
        )
        self.api.until(lambda: self.request("GET").status == 200)
        return self

    def request(self, method: str, name: str = "", *, sub: str = "", **options: Any) -> Answer:
        """One request to the kind's address."""
        path = f"/apis/{self.group}/v1/namespaces/{self.api.ns}/wonders"
        path += (f"/{name}" if name else "") + (f"/{sub}" if sub else "")
        return self.api.request(method, path, **options)

    def make(self, name: str = "a", spec: Body | None = None, **params: str) -> Answer:
        """Create an object."""
        return self.request("POST", json=self.object(name, spec), params=params)

    def object(self, name: str, spec: Body | None = None) -> Body:
        """An object of the kind."""
        body = {"apiVersion": f"{self.group}/v1", "kind": "Wonder", "metadata": {"name": name}}
        return {**body, "spec": {"size": 2} if spec is None else spec}

    def merge(self, name: str, patch: Body, sub: str = "") -> Answer:
        """A merge patch."""
        return self.request(
            "PATCH", name, sub=sub, json=patch, headers={"Content-Type": "application/merge-patch+json"}
        )


def check_a_defined_kind_is_established_and_listed(api: Api) -> Any:
    wonders = Wonders(api).ready()
    stored = api.read("customresourcedefinitions", f"wonders.{wonders.group}")
    listed = api.request("GET", f"/apis/{wonders.group}/v1").body["resources"][0]
    group = api.request("GET", f"/apis/{wonders.group}")
    return {
        "conditions": conditions(stored.body, "reason", "message"),
        "status": stored.pick(
            "status.acceptedNames", "status.storedVersions", "spec.conversion", "spec.names.listKind"
        ),
        "listed": {**listed, "storageVersionHash": None},
        "group": group.pick("kind", "versions", "preferredVersion"),
    }


def check_defaults_of_a_schema_are_filled_in(api: Api) -> Any:
    wonders = Wonders(api).ready()
    return wonders.make(spec={"size": 2, "parts": [{"name": "p"}]}).pick("spec", "metadata.generation")


def check_unknown_fields_are_pruned_unless_kept(api: Api) -> Any:
    wonders = Wonders(api).ready()
    spec = {"size": 2, "unknown": 1, "free": {"any": {"thing": [1]}}, "either": "10%"}
    pruned = wonders.make(spec=spec)
    strict = wonders.make("b", spec=spec, fieldValidation="Strict")
    return {"spec": pruned.pick("spec"), "warnings": pruned.warnings, "strict": strict.refusal}


def check_an_object_against_its_schema_is_refused(api: Api) -> Any:
    wonders = Wonders(api).ready()
    wrong: dict[str, Body] = {
        "required": {},
        "type": {"size": "two"},
        "maximum": {"size": 10},
        "enum": {"size": 2, "colour": "blue"},
        "pattern": {"size": 2, "code": "A1"},
        "length": {"size": 2, "code": "abcdef"},
        "items": {"size": 2, "tags": ["a", "b", "c", "d"]},
    }
    answers = {what: wonders.make(spec=spec) for what, spec in wrong.items()}
    assert {answer.status for answer in answers.values()} == {422}
    return {what: answer.refusal for what, answer in answers.items()}


def check_keyed_lists_and_sets_hold_an_entry_once(api: Api) -> Any:
    wonders = Wonders(api).ready()
    parts = wonders.make(spec={"size": 2, "parts": [{"name": "p"}, {"name": "p"}]})
    tags = wonders.make(spec={"size": 2, "tags": ["a", "a"]})
    return {"parts": parts.refusal, "tags": tags.refusal}


def check_rules_of_a_schema_are_evaluated(api: Api) -> Any:
    wonders = Wonders(api).ready()
    nine = wonders.make(spec={"size": 9})
    green = wonders.make("g", spec={"size": 9, "colour": "green", "code": "abc"})
    changed = wonders.merge("g", {"spec": {"code": "xyz"}})
    return {"nine": nine.refusal, "green": green.status, "changed": changed.refusal}


def check_a_status_of_ones_own_has_its_address(api: Api) -> Any:
    wonders = Wonders(api, subresources={"status": {}}).ready()
    body = {**wonders.object("a"), "status": {"seen": 1}}
    made = wonders.request("POST", json=body)
    ignored = wonders.merge("a", {"status": {"seen": 2}})
    written = wonders.merge("a", {"status": {"seen": 3}, "spec": {"size": 5}}, sub="status")
    grown = wonders.merge("a", {"spec": {"size": 4}})
    fields = ("spec.size", "status", "metadata.generation")
    return [answer.pick(*fields) for answer in (made, ignored, written, grown)]


def check_without_a_status_address_the_status_is_a_field(api: Api) -> Any:
    wonders = Wonders(api).ready()
    made = wonders.request("POST", json={**wonders.object("a"), "status": {"seen": 1}})
    return {"made": made.pick("status"), "address": wonders.request("GET", "a", sub="status").refusal}


def check_a_scale_of_ones_own_reads_its_paths(api: Api) -> Any:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    wonders = Wonders(api, subresources={"scale": paths, "status": {}}).ready()
    wonders.make(spec={"size": 2, "replicas": 3})
    read = wonders.request("GET", "a", sub="scale")
    grown = wonders.merge("a", {"spec": {"replicas": 4}}, sub="scale")
    fields = ("kind", "apiVersion", "spec", "status")
    return [read.pick(*fields), grown.pick(*fields), wonders.request("GET", "a").pick("spec.replicas")]


def check_columns_of_ones_own_are_shown(api: Api) -> Any:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Code", "type": "string", "jsonPath": ".spec.code", "priority": 1},
    ]
    wonders = Wonders(api, additionalPrinterColumns=columns).ready()
    wonders.make(spec={"size": 3})
    answer = wonders.request("GET", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    shown = [pick(column, "name", "type", "priority") for column in answer.body["columnDefinitions"]]
    return {"columns": shown, "cells": answer.body["rows"][0]["cells"]}


def check_ones_own_kind_is_applied_by_its_keys(api: Api) -> Any:
    wonders = Wonders(api).ready()
    headers = {"Content-Type": APPLY}
    seen = []
    for manager, part in (("one", "p"), ("two", "q")):
        body = wonders.object(
            "a", {"parts": [{"name": part}]} if manager == "two" else {"size": 2, "parts": [{"name": part}]}
        )
        answer = wonders.request("PATCH", "a", json=body, headers=headers, params={"fieldManager": manager})
        seen.append(answer)
    owners = [pick(entry, "manager", "fieldsV1") for entry in seen[1].get("metadata.managedFields")]
    return {
        "parts": seen[1].get("spec.parts"),
        "owners": sorted(owners, key=lambda entry: str(entry["manager"])),
    }


def check_a_definition_that_breaks_the_rules_is_refused(api: Api) -> Any:
    wrong = Wonders(api).body
    wrong["metadata"]["name"] = f"other.{wrong['spec']['group']}"
    named = api.create("customresourcedefinitions", wrong)
    body = {**wrong, "metadata": {"name": f"wonders.x{wrong['spec']['group']}"}}
    body["spec"] = {
        **wrong["spec"],
        "group": f"x{wrong['spec']['group']}",
        "versions": [{"name": "v1", "served": True, "storage": True}],
    }
    return {"name": named.refusal, "schema": api.create("customresourcedefinitions", body).refusal}


def check_a_removed_definition_takes_its_objects_along(api: Api) -> Any:
    wonders = Wonders(api).ready()
    wonders.make()
    name = f"wonders.{wonders.group}"
    answer = api.delete("customresourcedefinitions", name)
    api.gone("customresourcedefinitions", name)
    api.until(lambda: wonders.request("GET").status == 404)
    return {"answer": answer.status, "after": wonders.request("GET").refusal["status"]}


def check_a_changed_schema_counts_from_then_on(api: Api) -> Any:
    wonders = Wonders(api).ready()
    wonders.make(spec={"size": 2, "colour": "green"})
    name = f"wonders.{wonders.group}"
    stored = api.read("customresourcedefinitions", name).body
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]
    properties["colour"]["enum"] = ["red", "blue"]
    assert api.replace("customresourcedefinitions", name, stored).status == 200
    api.until(lambda: wonders.make("b", {"size": 2, "colour": "blue"}, dryRun="All").status == 201)
    kept = wonders.request("GET", "a")
    return {
        "kept": kept.pick("spec.colour"),
        "refused": wonders.make("c", {"size": 2, "colour": "green"}).refusal,
    }


def check_openapi_v3_describes_ones_own_kind(api: Api) -> Any:
    wonders = Wonders(api).ready()
    path = f"/openapi/v3/apis/{wonders.group}/v1"
    answer = api.until(lambda: (found := api.request("GET", path)).status == 200 and found)
    schemas = answer.body["components"]["schemas"]
    schema = next(entry for name, entry in schemas.items() if name.endswith(".Wonder"))
    return sorted(schema["properties"]["spec"]["properties"])
