"""The corpus through REST: refused with a pointer, or kept inert; never a server error."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hostile import corpus, kubernetes
from tests.hostile.addresses import READS, WRITING, with_value
from tests.hostile.cases import JOB, SERVICE, TRAINING, WORKLOAD, WRITES, Case, Write
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import filled, load
from tests.sample import every, sampled

pytestmark = pytest.mark.django_db
AGREED = ("quota_exceeded", "already_exists", "does_not_fit_now", "offer_not_allowed", "extension_limit")
"""Refusals of a well-formed request: the value was understood."""


def told(answer: Any, pointer: str) -> str:
    """What is wrong with how a value was answered: nothing, if taken, or refused with the place."""
    if answer.status_code >= 500:
        return f"{answer.status_code}"
    if answer.status_code < 300:
        return ""
    problem = answer.json()
    if answer.status_code == 400 and problem["code"] == "malformed_request":
        return "" if problem["detail"] else "no words"
    if answer.status_code == 422:
        named = [error["pointer"] for error in problem["errors"]]
        is_near = any(place.startswith(f"#{pointer}") or f"#{pointer}".startswith(place) for place in named)
        return "" if named and is_near else f"names {named}"
    return "" if problem["code"] in AGREED else str(problem["code"])


def sent(scene: Scene, role: str, request: tuple[str, str], body: Any) -> Any:
    method, path = request
    url = f"/api/v1/{path.format(own=scene.here.own.pk)}"
    return scene.api[role].generic(
        method, url, json.dumps(body), "application/json", headers={"If-Match": "*"}
    )


def refused_badly(scene: Scene, role: str, write: Write) -> Iterator[str]:
    request = (write.method, write.path)
    for pointer, value in every(4, write.cases):
        with undone():
            answer = sent(scene, role, request, with_value(write.body, pointer, value))
            problem = told(answer, pointer)
            if not problem and answer.status_code < 300 and "workloads" in write.path:
                problem = unfit(scene, role, answer.json()["id"])
        if problem:
            yield f"{request} {pointer}={str(value)[:60]!r}: {problem}"


def unfit(scene: Scene, role: str, workload: str) -> str:
    """What Kubernetes would refuse of an accepted workload."""
    shown = scene.api[role].get(f"/api/v1/workloads/{workload}/manifests").json()
    return "; ".join(fault for each in shown["items"] for fault in kubernetes.problems(each))


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("notebook", WORKLOAD), ("job", JOB), ("training", TRAINING), ("service", SERVICE)],
)
def test_a_hostile_workload_is_refused_with_a_pointer_or_stays_inert(
    scene: Scene, kind: str, cases: list[Case]
) -> None:
    body = {
        "tenant": "optics",
        "slug": "probe",
        "spec": {"kind": kind, "offer": "h100-slice", "image": "a/b:1"},
    }
    assert "\n".join(refused_badly(scene, "lead", Write("POST", "workloads", cases, body))) == ""


@pytest.mark.parametrize("what", WRITES)
def test_hostile_fields_of_other_writes_are_refused_with_a_pointer(scene: Scene, what: str) -> None:
    assert "\n".join(refused_badly(scene, "platform", WRITES[what])) == ""


def test_inert_text_is_kept_exactly_as_it_was_sent(scene: Scene) -> None:
    spec = {"kind": "job", "offer": "h100-slice", "image": "a/b:1"}
    for env in corpus.INERT_ENVIRONMENTS:
        with undone():
            body = {"tenant": "optics", "spec": {**spec, "env": env, "args": list(env.values())}}
            made = sent(scene, "lead", ("POST", "workloads"), body)
            assert (made.status_code, made.json()["spec"]["env"]) == (201, env)
            items = scene.api["lead"].get(f"{made['Location']}/manifests").json()["items"]
            containers = [
                c
                for item in items
                if item["kind"] == "Job"
                for c in item["spec"]["template"]["spec"]["containers"]
            ]
            assert containers[0]["args"] == list(env.values())
            assert {
                each["name"]: each.get("value", "") for each in containers[0]["env"]
            }.items() >= env.items()


@pytest.mark.parametrize(("row", "method"), WRITING)
def test_a_body_that_is_no_single_json_object_is_refused(scene: Scene, row: str, method: str) -> None:
    table, wrong = load(), []
    cells = [
        c
        for c in table.cells(row)
        if c.method == method and c.role == "platform" and c.kind in ("own", "none")
    ]
    place = asking.place_of(scene, table, cells[0]) | {"token_id": scene.token_of("platform")}
    path = filled(routes.template(row), place)
    for name, body, media_type in sampled(corpus.RAW_BODIES, WRITING.index((row, method)), 2):
        with undone():
            answer = scene.api["platform"].generic(method, path, body, media_type, headers={"If-Match": "*"})
        # An action (stop, hold, read) needs no body; what it says of the thing's state is no concern here.
        needs_none = method == "PATCH" or (method == "POST" and not row.endswith(">") and row.count("/") > 3)
        is_optional = needs_none and name in ("nothing", "no media type")
        # 403: the platform is no member of the tenant, and its body is not even read.
        if answer.status_code not in (400, 403, 413, 415, 422) and not (
            is_optional and answer.status_code < 500
        ):
            wrong.append(f"{name}: {answer.status_code}")
    assert wrong == []


@pytest.mark.parametrize(("row", "parameters"), READS)
def test_a_hostile_query_is_answered_or_refused_by_the_parameters_name(
    scene: Scene, row: str, parameters: list[str]
) -> None:
    entry = next(entry for name, entry in load().rows.items() if name.partition("?")[0] == row)
    resource = str(entry.get("ids", "none")).split()[0]
    path = filled(routes.template(row), scene.place(resource, "own", "platform"))
    wrong = []
    for name in (*parameters, "surprise"):
        known = corpus.for_parameter(name)
        turn = sum(map(ord, row + name))
        for value in sampled(known, turn, 3) if name != "surprise" else ["x"]:
            answer = scene.api["platform"].get(path, {name: value})
            answer.close()
            if answer.status_code == 400:
                named = [error["parameter"] for error in answer.json()["errors"]]
                if named not in ([name], ["from"] if name == "to" else [name]):
                    wrong.append(f"{name}={value[:40]!r}: {answer.content[:200]!r}")
            elif answer.status_code >= 500 or name == "surprise":
                wrong.append(f"{name}={value[:40]!r}: {answer.status_code}")
    assert wrong == []


PLACES = [row for row, view in routes.served().items() if "<" in row]


@pytest.mark.parametrize("row", PLACES)
def test_a_hostile_address_leads_nowhere(scene: Scene, row: str) -> None:
    entry = next(entry for name, entry in load().rows.items() if name.partition("?")[0] == row)
    resource = str(entry.get("ids", "none")).split()[0]
    place = {
        key: value for key, value in scene.place(resource, "own", "platform").items() if f":{key}>" in row
    }
    client = (scene.api if row.startswith(routes.API) else scene.pages)["platform"]
    wrong = []
    for name in place:
        for value in sampled(corpus.PATHS, PLACES.index(row), 3):
            answer = client.get(filled(routes.template(row), {**place, name: value}))
            lacks_cluster = answer.status_code == 400 and answer.json()["code"] == "invalid_parameter"
            if answer.status_code not in (404, 405) and not (lacks_cluster and "namespaces" in row):
                wrong.append(f"{name}={value[:40]}: {answer.status_code}")
    assert wrong == []


@pytest.mark.parametrize("key", ["", "a" * 201, "é\u202e", "a\tb", "\x7f"])
def test_a_hostile_idempotency_key_is_refused(scene: Scene, key: str) -> None:
    body = {"name": "t", "scopes": []}
    with undone():
        answer = scene.api["lead"].post(
            "/api/v1/tokens", body, content_type="application/json", headers={"Idempotency-Key": key}
        )
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request")


@pytest.mark.parametrize("match", ["", "1", '"x"', '"1', "W/", '"' + "9" * 400 + '"', "é", ",,,"])
def test_a_hostile_etag_matches_nothing(scene: Scene, match: str) -> None:
    path = f"/api/v1/workloads/{scene.here.own.pk}"
    answer = scene.api["lead"].patch(
        path, {"name": "x"}, content_type="application/json", headers={"If-Match": match}
    )
    assert answer.status_code == 412


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer alt_",
        "Bearer " + "a" * 8000,
        "bearer \udcff",
        "Bearer alt_" + "0" * 49,
    ],
)
def test_a_hostile_credential_opens_nothing(scene: Scene, text: str) -> None:
    answer = scene.api["anonymous"].get("/api/v1/me", headers={"Authorization": text})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
