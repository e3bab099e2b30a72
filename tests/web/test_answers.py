"""What every REST answer has: problems, request ids, unknown things, wrong fields, ETags, the query."""

import re
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client

from apps.accounts.models import User
from apps.web.problems.codes import CODES

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db]
Bearer = Callable[..., Client]
JSON = "application/json"


def test_a_problem_has_the_members_of_the_contract(bearer: Bearer) -> None:
    answer = bearer().get("/api/v1/things?tenat=vision")
    body = answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert set(body) == {"type", "title", "status", "detail", "instance", "code", "hint", "errors"}
    assert body["instance"] == f"urn:uuid:{answer['X-Request-Id']}"
    assert body["type"].endswith("/problems/unknown_parameter")
    assert body["errors"] == [
        {"parameter": "tenat", "code": "unknown_field", "detail": "Did you mean tenant?"}
    ]


def test_a_parameter_that_is_given_twice_is_refused_by_its_name(bearer: Bearer) -> None:
    answer = bearer().get("/api/v1/me?x=1&x=2")
    assert answer.json()["code"] == "unknown_parameter"
    answer = bearer().get("/api/v1/things?tenant=a&tenant=b")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert answer.json()["errors"][0]["parameter"] == "tenant"
    assert "once" in answer.json()["errors"][0]["detail"]


def test_the_request_id_is_the_servers_own(bearer: Bearer) -> None:
    answer = bearer().get("/api/v1/me", headers={"X-Request-Id": "mine"})
    assert UUID(answer["X-Request-Id"]).version == 4


def test_an_unknown_address_and_an_invisible_thing_answer_the_same_bytes(bearer: Bearer) -> None:
    client = bearer()
    invisible, unknown = client.get("/api/v1/failing/gone"), client.get("/api/v1/no-such-thing")
    assert invisible.status_code == unknown.status_code == 404
    assert invisible.content == unknown.content
    assert invisible.json()["instance"] is None
    varying = ("X-Request-Id", "Date", "RateLimit", "RateLimit-Policy", "Allow", "Vary")
    kept = [{k: v for k, v in answer.items() if k not in varying} for answer in (invisible, unknown)]
    assert kept[0]["Content-Type"] == kept[1]["Content-Type"]


def test_a_failure_says_nothing_of_what_happened_inside(bearer: Bearer) -> None:
    client = bearer()
    client.raise_request_exception = False
    answer = client.get("/api/v1/failing/unforeseen")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret words" not in answer.content.decode()


@pytest.mark.parametrize(
    ("method", "kind", "body", "code"),
    [
        ("delete", JSON, "", "method_not_allowed"),
        ("post", "text/plain", "hello", "unsupported_media_type"),
        ("post", JSON, "{", "malformed_request"),
        ("post", JSON, '{"name": "' + "x" * 1024 * 1024 + '"}', "body_too_large"),
        ("post", "application/merge-patch+json", "{}", "unsupported_media_type"),
    ],
)
def test_what_http_itself_refuses_has_its_code(
    method: str, kind: str, body: str, code: str, bearer: Bearer
) -> None:
    answer = bearer().generic(method.upper(), "/api/v1/things", body, content_type=kind)
    assert (answer.json()["code"], answer.status_code) == (code, CODES[code].status)
    if code == "method_not_allowed":
        assert set(answer["Allow"].split(", ")) >= {"GET", "POST", "PATCH"}


def test_every_wrong_field_is_named_at_once_with_its_pointer(bearer: Bearer) -> None:
    sent = {
        "nam": "x",
        "size": {"memory": "123456789", "count": 0, "cuont": 1},
        "tags": [1, "b"],
        "made_by": "me",
    }
    answer = bearer().post("/api/v1/things", sent, content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    wrong = {error["pointer"]: error["code"] for error in answer.json()["errors"]}
    assert wrong == {
        "#/name": "required",
        "#/nam": "unknown_field",
        "#/made_by": "read_only_field",
        "#/size/memory": "out_of_range",
        "#/size/count": "out_of_range",
        "#/size/cuont": "unknown_field",
        "#/tags/1": "invalid_value",
    }


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        (None, 428, "precondition_required"),
        ('"2"', 412, "precondition_failed"),
        ('"3"', 200, None),
        ("*", 200, None),
        ('"1", "3"', 200, None),
    ],
)
def test_a_change_needs_the_etag_of_what_it_changes(
    given: str | None, status: int, code: str | None, bearer: Bearer
) -> None:
    headers = {"If-Match": given} if given else {}
    answer = bearer().patch("/api/v1/things", {"name": "x"}, content_type=JSON, headers=headers)
    assert (answer.status_code, answer.json().get("code")) == (status, code)


def test_patch_takes_the_media_type_of_merge_patches(bearer: Bearer) -> None:
    answer = bearer().patch(
        "/api/v1/things",
        {"name": "x"},
        content_type="application/merge-patch+json",
        headers={"If-Match": "*"},
    )
    assert answer.json() == {"changed": ["name"]}


def test_every_code_has_a_page_and_other_codes_have_none() -> None:
    for code, known in CODES.items():
        page = Client().get(f"/problems/{code}")
        assert page.status_code == 200
        assert known.title in page.content.decode()
    assert Client().get("/problems/no-such-code").status_code == 404


def test_a_page_and_rest_refuse_in_the_same_words() -> None:
    page = Client().get("/refused/")
    html = page.content.decode()
    assert page.status_code == 403
    assert "Only a lead may do this." in html
    assert "Ask someone with the named role." in html
    assert page["X-Request-Id"] in html


def test_for_htmx_a_refusal_is_the_box_alone() -> None:
    part = Client().get("/refused/", headers={"HX-Request": "true"})
    html = part.content.decode()
    assert "Only a lead may do this." in html
    assert "<html" not in html
    assert part["HX-Retarget"] == "#problem"


def test_a_part_is_served_alone_and_an_unknown_part_is_not_there() -> None:
    client = Client()
    part = client.get("/page/?part=box", headers={"HX-Request": "true"})
    assert "A detail" in part.content.decode()
    assert not re.search("<html", part.content.decode())
    assert "HX-Request" in part["Vary"].split(", ")
    assert part["Cache-Control"] == "no-store"
    assert "<html" in client.get("/page/?part=box").content.decode()
    assert client.get("/page/?part=other", headers={"HX-Request": "true"}).status_code == 404


def test_without_the_database_a_page_says_so_plainly(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(ada)

    def away(*_args: object) -> None:
        raise OperationalError("no route to the secret host")

    monkeypatch.setattr(BaseDatabaseWrapper, "cursor", away)
    page = client.get("/me/tokens/")
    assert (page.status_code, page["Retry-After"]) == (503, "10")
    assert "Its database does not answer." in page.content.decode()
    assert "secret host" not in page.content.decode()


def test_a_database_that_others_hold_too_long_is_told_with_when_to_come_back(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(ada)

    def locked(*_args: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(BaseDatabaseWrapper, "cursor", locked)
    answer = client.get("/api/v1/workloads")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert (answer.json()["code"], "locked" in answer.content.decode()) == ("database_unavailable", False)


def test_an_unknown_page_is_a_page() -> None:
    page = Client().get("/no/such/page/")
    assert page.status_code == 404
    assert "There is nothing here that you may see." in page.content.decode()
