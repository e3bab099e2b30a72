"""Lists in pages: limit, continue, what remains, and which version is shown."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api
from tests.contract.manifests import configmap


def _five(api: Api) -> str:
    for name in "abcde":
        api.create("configmaps", configmap(name, labels={"mine": "yes"}))
    return "a"


def check_pages_follow_each_other(api: Api) -> Any:
    last = api.list("configmaps").body["items"][-1]["metadata"]["name"] if _five(api) else ""
    names: list[str] = []
    sizes, remaining, token = [], [], ""
    while True:
        page = api.list("configmaps", limit="2", **({"continue": token} if token else {}))
        names += page.names
        sizes.append(len(page.names))
        remaining.append(page.get("metadata.remainingItemCount"))
        token = page.get("metadata.continue") or ""
        if not token:
            break
    assert names[-1] == last
    return {"names": names, "sizes": sizes, "remaining": remaining}


def check_all_pages_show_the_same_moment(api: Api) -> Any:
    _five(api)
    first = api.list("configmaps", limit="2")
    api.create("configmaps", configmap("bb"))
    api.delete("configmaps", "d")
    rest = api.list("configmaps", limit="9", **{"continue": first.get("metadata.continue")})
    same = rest.get("metadata.resourceVersion") == first.get("metadata.resourceVersion")
    return {"first": first.names, "rest": rest.names, "same_version": same}


def check_a_selected_list_does_not_count_what_remains(api: Api) -> Any:
    _five(api)
    page = api.list("configmaps", limit="2", labelSelector="mine=yes")
    rest = api.list(
        "configmaps", limit="2", labelSelector="mine=yes", **{"continue": page.get("metadata.continue")}
    )
    return [page.names, page.get("metadata.remainingItemCount"), rest.names]


def check_a_continuation_that_is_none_is_refused(api: Api) -> Any:
    answer = api.list("configmaps", limit="2", **{"continue": "wonder"})
    assert answer.status == 400
    return [answer.status, answer.get("reason")]


def check_a_list_may_ask_for_a_version(api: Api) -> Any:
    _five(api)
    listed = api.list("configmaps", labelSelector="mine")
    version = listed.get("metadata.resourceVersion")
    api.create("configmaps", configmap("f", labels={"mine": "yes"}))
    exact = api.list(
        "configmaps", labelSelector="mine", resourceVersion=version, resourceVersionMatch="Exact"
    )
    newer = api.list(
        "configmaps", labelSelector="mine", resourceVersion=version, resourceVersionMatch="NotOlderThan"
    )
    wrong = api.list("configmaps", resourceVersionMatch="Exact")
    assert set("abcde") <= set(newer.names)
    return {"exact": exact.names, "wrong": wrong.refusal}


def check_a_version_of_the_future_is_not_served(api: Api) -> Any:
    answer = api.list("configmaps", resourceVersion="999999999", resourceVersionMatch="Exact")
    return [answer.status, answer.get("reason")]
