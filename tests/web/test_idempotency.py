"""The same request sent twice makes one thing; see docs/api.md, Idempotency-Key."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.web.models import IdempotencyKey
from apps.web.requests import kept_keys
from tests.conftest import generation
from tests.web.urls import SlowlyToldView, stored

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db, pytest.mark.both_databases]
Bearer = Callable[..., Client]


def send(client: Client, name: str, *, key: str = "k1", path: str = "/api/v1/things", query: str = "") -> Any:
    body = json.dumps({"name": name})
    return client.post(path + query, body, content_type="application/json", headers={"Idempotency-Key": key})


def test_a_repeat_gets_the_first_answer_and_makes_nothing(bearer: Bearer, no_broker: None) -> None:
    client = bearer()
    first, again = send(client, "one"), send(client, "one")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == {**first.json(), "secret": None}
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert (again["Location"], generation(again)) == (first["Location"], generation(first))
    assert stored("one") == 1


def test_a_secret_is_shown_once_and_never_stored(bearer: Bearer, no_broker: None) -> None:
    assert send(bearer(), "one").json()["secret"] == "shown once"
    assert "shown once" not in json.dumps(IdempotencyKey.objects.get().response)


def test_the_key_with_another_body_is_refused(bearer: Bearer, no_broker: None) -> None:
    client = bearer()
    send(client, "one")
    other = send(client, "two")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert stored("two") == 0


def test_a_repeat_after_a_change_of_the_secret_key_is_the_same_request(
    bearer: Bearer, no_broker: None, settings: Settings
) -> None:
    client = bearer()
    send(client, "one")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]
    assert send(client, "one")["Idempotency-Replayed"] == "true"
    assert send(client, "two").status_code == 422


def test_a_refusal_is_not_kept_and_leaves_nothing(bearer: Bearer, no_broker: None) -> None:
    client = bearer()
    refused = send(client, "too-much")
    assert (refused.status_code, refused.json()["quota"]) == (409, {"requested": 9})
    assert (stored("too-much"), IdempotencyKey.objects.count()) == (0, 0)
    assert send(client, "one").status_code == 201


def test_keys_of_two_credentials_or_two_paths_are_two_keys(bearer: Bearer, no_broker: None) -> None:
    assert send(bearer(), "one").status_code == 201
    assert send(bearer(), "two").status_code == 201
    assert stored("one") + stored("two") == 2


def test_a_dry_run_takes_no_key(bearer: Bearer, no_broker: None) -> None:
    send(bearer(), "one", query="?dry_run=true")
    assert IdempotencyKey.objects.count() == 0


def test_a_dry_run_refuses_a_key_that_is_none(bearer: Bearer, no_broker: None) -> None:
    refused = send(bearer(), "one", key="a" * 201, query="?dry_run=true")
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request")


def test_a_key_is_forgotten_after_a_day(bearer: Bearer, no_broker: None) -> None:
    client = bearer()
    send(client, "one")
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert send(client, "two").status_code == 201
    assert kept_keys.prune(timezone.now() + timedelta(hours=25)) == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_an_unusable_key_is_refused(key: str, bearer: Bearer) -> None:
    assert send(bearer(), "one", key=key).status_code == 400


def test_what_is_told_after_it_is_stored_is_kept_and_told_again(bearer: Bearer, no_broker: None) -> None:
    client = bearer()
    first = send(client, "one", path="/api/v1/told")
    again = send(client, "one", path="/api/v1/told")
    assert (first.status_code, first["Location"]) == (201, f"/api/v1/told/{first.json()['id']}")
    assert (again.status_code, again.json(), again["ETag"]) == (201, first.json(), first["ETag"])
    assert (again["Idempotency-Replayed"], stored("one")) == ("true", 1)
    assert IdempotencyKey.objects.get().response == first.json()


def test_a_request_that_died_before_its_answer_is_told_to_the_repeat(
    bearer: Bearer, no_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bearer()

    def dies(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(SlowlyToldView, "_tell", dies)
    with pytest.raises(SystemExit):
        send(client, "one", path="/api/v1/told")
    monkeypatch.undo()
    assert (stored("one"), IdempotencyKey.objects.get().response) == (1, None)
    again = send(client, "one", path="/api/v1/told")
    assert (again.status_code, stored("one"), again["Idempotency-Replayed"]) == (201, 1, "true")
    assert IdempotencyKey.objects.get().response == again.json()


def test_a_refusal_before_the_telling_leaves_nothing(bearer: Bearer, no_broker: None) -> None:
    refused = send(bearer(), "too-much", path="/api/v1/told")
    assert (refused.status_code, stored("too-much"), IdempotencyKey.objects.count()) == (409, 0, 0)
