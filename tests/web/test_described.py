"""The check of every answer can fail: each kind of lie about an operation is found."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.response import Response

from apps.accounts.models import ApiToken
from apps.errors import Conflict
from portal.api.declared.declaring import answers
from portal.api.people import me, me_bodies
from portal.api.people.me_bodies import MeBody

pytestmark = [pytest.mark.django_db]
Found = Callable[[], list[str]]


def test_a_true_answer_is_not_found(bearer: Any, answers_are_described: Found) -> None:
    assert bearer().get("/api/v1/me").status_code == 200
    assert answers_are_described() == []


def test_a_member_that_is_not_declared_is_found(
    bearer: Any, answers_are_described: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = me_bodies.me_body
    monkeypatch.setattr(me, "me_body", lambda *a: {**true(*a), "shoe_size": 43, "name": None})
    bearer().get("/api/v1/me")
    found = "\n".join(answers_are_described())
    assert "'shoe_size' was unexpected" in found
    assert "$.name: None is not of type 'string'" in found


def test_a_status_that_is_not_declared_is_found(
    bearer: Any, answers_are_described: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = answers(200, MeBody)(lambda _self, _request: Response({}, status=202))
    monkeypatch.setattr(me.MeView, "get", lie)
    bearer().get("/api/v1/me")
    assert answers_are_described() == ["GET /api/v1/me: 202 is not declared"]


def test_a_header_that_is_missing_or_too_much_is_found(
    bearer: Any, answers_are_described: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = me._answer

    def lie(token: ApiToken, text: str) -> Response:
        return Response(true(token, text).data, status=201, headers={"ETag": '"1"'})

    monkeypatch.setattr(me, "_answer", lie)
    bearer().post("/api/v1/tokens", {"name": "x"}, content_type="application/json")
    assert answers_are_described() == [
        "POST /api/v1/tokens: 201 lacks the header Location",
        "POST /api/v1/tokens: 201 has the undeclared header ETag",
    ]


def test_a_code_that_is_not_declared_is_found(
    bearer: Any, answers_are_described: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(*_args: object) -> None:
        raise Conflict("It is not.")

    monkeypatch.setattr(me, "me_body", lie)
    bearer().get("/api/v1/me")
    assert answers_are_described() == ["GET /api/v1/me: 409 (wrong_phase) is not declared"]
