"""Watches: live changes, selectors, resume, bookmarks and a past that is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.http import watching
from sandbox.api.http.watching import Control, Watch, Wish
from sandbox.api.meta.objects import Obj


def config(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}}


def watch(cluster: Cluster, version: str = "", label: str = "", **more: Any) -> Watch:
    kind = cluster.kinds.named("configmaps")
    control = more.pop("control", Control())

    def match(obj: Obj) -> bool:
        return not label or label in (obj["metadata"].get("labels") or {})

    wish = Wish(
        kind, "default", match, version, more.pop("bookmarks", False), more.pop("timeout", 0.3), **more
    )
    return Watch(cluster.store, wish, lambda _obj, body: body, control)


def events(stream: Watch, during: Any = None) -> list[tuple[str, str]]:
    async def collect() -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        if during is not None:
            asyncio.get_running_loop().call_later(0.05, during)
        async for chunk in stream.lines():
            for line in chunk.splitlines():
                event = orjson.loads(line)
                seen.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
        return seen

    return asyncio.run(collect())


def test_a_watch_from_nowhere_starts_with_what_is_there(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("configmaps", config("a"), "default")
    seen = events(watch(cluster), lambda: client.create("configmaps", config("b"), "default"))
    assert seen == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_resumes_after_the_version_it_knows(cluster: Cluster) -> None:
    client = cluster.client()
    known = client.create("configmaps", config("a"), "default")["metadata"]["resourceVersion"]
    client.patch("configmaps", "a", {"data": {"k": "v"}}, namespace="default")
    client.delete("configmaps", "a", "default")
    assert events(watch(cluster, known)) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_an_object_that_stops_matching_is_told_as_deleted(cluster: Cluster) -> None:
    client = cluster.client()
    client.create("configmaps", config("a", mine="yes"), "default")
    version = str(cluster.store.version)

    def change() -> None:
        client.patch("configmaps", "a", {"metadata": {"labels": {"mine": None}}}, namespace="default")
        client.patch("configmaps", "a", {"metadata": {"labels": {"mine": "again"}}}, namespace="default")

    assert events(watch(cluster, version, "mine"), change) == [("DELETED", "a"), ("ADDED", "a")]


def test_a_compacted_version_is_gone(cluster: Cluster) -> None:
    client = cluster.client()
    known = client.create("configmaps", config("a"), "default")["metadata"]["resourceVersion"]
    client.patch("configmaps", "a", {"data": {"k": "v"}}, namespace="default")
    cluster.store.compact(cluster.store.version)
    first = watch(cluster, known)

    async def one() -> Obj:
        async for chunk in first.lines():
            return dict(orjson.loads(chunk))
        return {}

    event = asyncio.run(one())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_bookmark_ends_the_first_events_and_the_watch(cluster: Cluster) -> None:
    cluster.client().create("configmaps", config("a"), "default")
    seen = events(watch(cluster, bookmarks=True, initial=True))
    assert [kind for kind, _ in seen] == ["ADDED", "BOOKMARK", "BOOKMARK"]


def test_a_paused_watch_holds_back_and_a_closed_one_ends(cluster: Cluster) -> None:
    control = Control()
    control.paused_until = float("inf")
    client = cluster.client()
    held = events(
        watch(cluster, str(cluster.store.version), control=control),
        lambda: client.create("configmaps", config("late"), "default"),
    )
    assert held == []

    def close() -> None:
        control.epoch += 1

    open_ended = watch(cluster, str(cluster.store.version), control=control, timeout=30)
    assert events(open_ended, close) == []


def test_bookmarks_come_regularly() -> None:
    assert 1 <= watching.BOOKMARK_SECONDS <= 60
