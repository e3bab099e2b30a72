"""Watch: order, selectors, bookmarks, resume, and a past that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.answers import Body, pick
from tests.contract.api import MERGE, Api
from tests.contract.manifests import configmap

MINE = "mine=yes"
"""Most watches ask for these alone: a cluster adds `kube-root-ca.crt` to a new namespace, sometimes late."""


def _make(api: Api, name: str, **data: str) -> None:
    assert api.create("configmaps", configmap(name, data, labels={"mine": "yes"})).status == 201


def _take(events: Iterator[Body], count: int) -> list[list[str]]:
    taken = [next(events) for _ in range(count)]
    return [[event["type"], event["object"]["metadata"].get("name", "")] for event in taken]


def _now(api: Api) -> str:
    return str(api.list("configmaps").get("metadata.resourceVersion"))


def check_changes_arrive_in_order(api: Api) -> Any:
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE) as events:
        _make(api, "a", k="1")
        api.patch("configmaps", "a", {"data": {"k": "2"}}, media=MERGE)
        api.delete("configmaps", "a")
        _make(api, "b")
        return _take(events, 4)


def check_a_deletion_shows_the_last_state_with_a_newer_version(api: Api) -> Any:
    _make(api, "a", k="1")
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE) as events:
        api.delete("configmaps", "a")
        event = next(events)
    newer = int(event["object"]["metadata"]["resourceVersion"]) > int(version)
    return {"type": event["type"], "data": event["object"]["data"], "newer": newer}


def check_a_watch_without_a_version_begins_with_what_there_is(api: Api) -> Any:
    _make(api, "a")
    _make(api, "b")
    with api.watch("configmaps", labelSelector=MINE) as events:
        first = _take(events, 2)
        _make(api, "c")
        return {"first": sorted(first), "then": _take(events, 1)}


def check_leaving_a_selection_looks_like_a_deletion(api: Api) -> Any:
    _make(api, "a")
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE) as events:
        api.patch("configmaps", "a", {"metadata": {"labels": {"mine": "no"}}})
        api.patch("configmaps", "a", {"data": {"unseen": "x"}})
        api.patch("configmaps", "a", {"metadata": {"labels": {"mine": "yes"}}})
        return _take(events, 2)


def check_one_object_is_watched_by_its_name(api: Api) -> Any:
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, fieldSelector="metadata.name=b") as events:
        _make(api, "a")
        _make(api, "b")
        return _take(events, 1)


def check_a_watch_is_resumed_where_it_ended(api: Api) -> Any:
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE) as events:
        _make(api, "a")
        first = next(events)
    _make(api, "b")
    api.delete("configmaps", "a")
    version = first["object"]["metadata"]["resourceVersion"]
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE) as events:
        return _take(events, 2)


def check_an_initial_list_may_be_streamed(api: Api) -> Any:
    _make(api, "a")
    params = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
        "labelSelector": MINE,
    }
    with api.watch("configmaps", **params) as events:
        first, bookmark = next(events), next(events)
        _make(api, "b")
        then = _take(events, 1)
    mark = pick(bookmark["object"], "kind", "apiVersion")
    notes = bookmark["object"]["metadata"]["annotations"]
    return {"first": first["type"], "bookmark": [bookmark["type"], mark, notes], "then": then}


def check_bookmarks_come_on_a_quiet_watch(api: Api) -> Any:
    version = _now(api)
    params = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "3"}
    with api.watch("configmaps", **params) as events:
        seen = [event for event in events if event["type"] == "BOOKMARK"]
    # The server bookmarks at least shortly before a watch with a time limit ends.
    assert seen
    last = seen[-1]["object"]
    known = int(last["metadata"]["resourceVersion"]) >= int(version)
    return {"kind": last["kind"], "fields": sorted(last["metadata"]), "known": known}


def check_a_watch_ends_after_its_time(api: Api) -> Any:
    version = _now(api)
    with api.watch("configmaps", resourceVersion=version, labelSelector=MINE, timeoutSeconds="1") as events:
        return [event["type"] for event in events]


def check_a_past_that_is_gone_is_told(api: Api) -> Any:
    # The kind is younger than the first version of the server.
    with api.watch("cohorts", resourceVersion="1") as events:
        event = next(events)
    told = pick(event["object"], "kind", "code", "reason", "status")
    assert event["type"] == "ERROR"
    return {"told": told, "begins": event["object"]["message"][:26]}


def check_a_watch_across_namespaces_tells_each(api: Api) -> Any:
    second = api.namespace("second")
    version = api.list("configmaps", ns="*", limit="1").get("metadata.resourceVersion")
    label = f"mine={api.ns}"
    with api.watch("configmaps", ns="*", resourceVersion=version, labelSelector=label) as events:
        for place in (api.ns, second):
            api.create("configmaps", configmap("a", labels={"mine": api.ns}), ns=place)
        return [event["object"]["metadata"]["namespace"] for event in (next(events), next(events))]


def check_a_watch_can_be_a_table(api: Api) -> Any:
    version = _now(api)
    params = {"watch": "true", "resourceVersion": version, "labelSelector": MINE, "timeoutSeconds": "2"}
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    _make(api, "a")
    answer = api.request("GET", api.url("configmaps"), params=params, headers=headers)
    event = answer.body if isinstance(answer.body, dict) else {}
    return {
        "type": event.get("type"),
        "kind": event["object"]["kind"],
        "cells": event["object"]["rows"][0]["cells"][:1],
    }


def check_custom_resources_are_watched_too(api: Api) -> Any:
    name = api.name("cohort")
    version = api.list("cohorts").get("metadata.resourceVersion")
    with api.watch("cohorts", resourceVersion=version, fieldSelector=f"metadata.name={name}") as events:
        api.create("cohorts", {"metadata": {"name": name}})
        api.delete("cohorts", name)
        seen = []
        for event in events:
            seen.append(event["type"])
            if event["type"] == "DELETED":
                break
    # Kueue may write a status and hold the object by a finalizer in between.
    return [seen[0], seen[-1]]


def check_a_watch_of_nothing_known_is_refused(api: Api) -> Any:
    with api.watch("configmaps", resourceVersion="soon") as events:
        told = next(events)
    answer = api.request("GET", "/api/v1/wonders", params={"watch": "true"})
    return {"version": pick(told, "kind", "code", "reason"), "kind": answer.refusal}
