"""resourceVersion, generation and PUT: who may overwrite whom."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Body
from tests.contract.api import Api
from tests.contract.manifests import configmap, replicated


def check_an_update_of_a_stale_version_conflicts(api: Api) -> Any:
    first = api.create("configmaps", configmap("a", {"k": "1"}))
    api.patch("configmaps", "a", {"data": {"k": "2"}})
    stale = api.replace("configmaps", "a", configmap("a", {"k": "3"}, resourceVersion=first.version))
    assert stale.status == 409
    return {"refused": stale.refusal, "kept": api.read("configmaps", "a").pick("data")}


def check_an_update_of_the_present_version_passes(api: Api) -> Any:
    first = api.create("configmaps", configmap("a", {"k": "1"}))
    second = api.replace("configmaps", "a", configmap("a", {"k": "2"}, resourceVersion=first.version))
    assert int(second.version) > int(first.version)
    return second.pick("data")


def check_an_update_without_a_version_overwrites(api: Api) -> Any:
    api.create("configmaps", configmap("a", {"k": "1"}, labels={"l": "m"}))
    second = api.replace("configmaps", "a", configmap("a", {"n": "2"}))
    return second.pick("data", "metadata.labels")


def check_an_update_that_changes_nothing_keeps_the_version(api: Api) -> Any:
    first = api.create("configmaps", configmap("a", {"k": "1"}))
    put = api.replace("configmaps", "a", first.body)
    patched = api.patch("configmaps", "a", {"data": {"k": "1"}})
    return {"put": put.version == first.version, "patch": patched.version == first.version}


def check_an_update_of_an_absent_object_is_not_found(api: Api) -> Any:
    return api.replace("configmaps", "a", configmap("a")).refusal


def check_an_update_of_another_identity_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    uid = "00000000-0000-0000-0000-000000000000"
    answer = api.replace("configmaps", "a", configmap("a", uid=uid))
    assert answer.status == 409
    return [answer.status, answer.get("reason")]


def check_a_patch_may_insist_on_a_version(api: Api) -> Any:
    first = api.create("configmaps", configmap("a", {"k": "1"}))
    api.patch("configmaps", "a", {"data": {"k": "2"}})
    stale = {"metadata": {"resourceVersion": first.version}, "data": {"k": "3"}}
    return api.patch("configmaps", "a", stale).refusal


def check_the_generation_counts_changes_of_the_spec_alone(api: Api) -> Any:
    body = replicated("a", replicas=0)
    made = api.create("deployments", body)
    paused: Body = {"spec": {"paused": True}}
    patches: list[Body] = [{"metadata": {"labels": {"l": "m"}}}, paused, paused]
    answers = [made, *(api.patch("deployments", "a", patch) for patch in patches)]
    return [answer.get("metadata.generation") for answer in answers]


def check_the_servers_own_fields_cannot_be_changed(api: Api) -> Any:
    first = api.create("configmaps", configmap("a"))
    when = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    second = api.patch("configmaps", "a", {"metadata": when})
    same = second.get("metadata.creationTimestamp") == first.get("metadata.creationTimestamp")
    return {"creation_kept": same, "generation": second.get("metadata.generation"), "status": second.status}


def check_a_version_that_is_no_number_is_refused(api: Api) -> Any:
    api.create("configmaps", configmap("a"))
    put = api.replace("configmaps", "a", configmap("a", resourceVersion="soon"))
    listed = api.list("configmaps", resourceVersion="soon")
    return {"put": put.refusal, "list": listed.refusal}
