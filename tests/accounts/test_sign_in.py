"""Signing in and out: the session's life, its refusals, and the demo's buttons."""

import time
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pytest_django import Settings

from apps.accounts import actors
from apps.accounts.models import User
from apps.audit.models import AuditEvent
from tests.accounts.conftest import PASSWORD
from tests.factories import make_user

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


def enter(client: Client, password: str = PASSWORD, **more: str) -> Any:
    return client.post("/sign-in/", {"username": "ada", "password": password, **more})


def me(client: Client) -> int:
    return client.get("/api/v1/me").status_code


def test_the_right_password_opens_a_session_under_a_new_key(ada: User) -> None:
    client = Client()
    client.get("/sign-in/")
    planted = client.session
    planted["planted"] = True
    planted.save()
    client.cookies[django_settings.SESSION_COOKIE_NAME] = planted.session_key or ""
    answer = enter(client)
    assert (answer.status_code, answer["Location"]) == (303, "/")
    assert client.cookies[django_settings.SESSION_COOKIE_NAME].value != planted.session_key
    assert me(client) == 200
    assert AuditEvent.objects.get(action="session.sign-in").changes == {"way": "password"}


@pytest.mark.parametrize("username", ["ada", "nobody"])
def test_a_wrong_password_and_an_unknown_person_get_the_same_words(username: str, ada: User) -> None:
    client = Client()
    answer = client.post("/sign-in/", {"username": username, "password": "wrong"})
    assert answer.status_code == 422
    assert "The username or the password is wrong." in answer.content.decode()
    assert me(client) == 401


@pytest.mark.parametrize(
    ("wanted", "led"),
    [
        ("/t/vision/", "/t/vision/"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("javascript:x", "/"),
    ],
)
def test_the_way_on_stays_on_this_host(wanted: str, led: str, ada: User) -> None:
    assert enter(Client(), next=wanted)["Location"] == led


def test_signing_out_ends_the_session(ada: User) -> None:
    client = Client()
    enter(client)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert me(client) == 401


def test_a_disabled_person_is_refused_at_once(ada: User) -> None:
    client = Client()
    enter(client)
    User.objects.update(is_active=False)
    assert me(client) == 401


def test_a_session_ends_after_a_day_however_busy(ada: User) -> None:
    client = Client()
    enter(client)
    session = client.session
    session[actors.SIGNED_IN] = int(time.time()) - actors.LONGEST_SESSION_SECONDS - 1
    session.save()
    assert me(client) == 401


def test_a_used_session_is_prolonged(ada: User) -> None:
    client = Client()
    enter(client)
    session = client.session
    session[actors.TOUCHED] = 0
    session.save()
    before = session.get_expiry_date()
    assert me(client) == 200
    assert client.session[actors.TOUCHED] > 0
    assert client.session.get_expiry_date() > before


def test_the_sixth_try_within_a_minute_must_wait(ada: User, broker: str) -> None:
    left_of_this_minute = 60 - time.time() % 60
    if left_of_this_minute < 15:
        # Tries are counted by the calendar's minute; the seven below must fall into one.
        time.sleep(left_of_this_minute)
    client = Client()
    statuses = [enter(client, "wrong").status_code for _ in range(6)]
    assert statuses == [422] * 5 + [429]
    assert enter(client).status_code == 429
    assert client.post("/sign-in/", {"username": "eve", "password": "x"}).status_code == 422


def test_the_demos_buttons_exist_only_in_the_demo(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_user("researcher")
    client = Client()
    assert 'value="researcher"' not in client.get("/sign-in/").content.decode()
    assert client.post("/sign-in/demo/", {"person": "researcher"}).status_code == 404
    monkeypatch.setattr(settings.CONFIG, "demo", True)
    assert 'value="researcher"' in client.get("/sign-in/").content.decode()
    assert client.post("/sign-in/demo/", {"person": "researcher"}).status_code == 303
    assert me(client) == 200


def test_the_demo_opens_nobody_else(ada: User, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.CONFIG, "demo", True)
    assert Client().post("/sign-in/demo/", {"person": "ada"}).status_code == 404


def test_a_form_without_its_token_is_told_what_to_do(ada: User) -> None:
    answer = enter(Client(enforce_csrf_checks=True))
    assert answer.status_code == 403
    assert "load the page again" in answer.content.decode()


def test_a_session_needs_the_csrf_token_to_write_over_rest(ada: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    answer = client.post("/api/v1/things", {"name": "x"}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert "X-CSRFToken" in answer.json()["hint"]
