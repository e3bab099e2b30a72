"""Passkeys: made, asked for after the password and alone, refused, removed."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import people, sign_in
from apps.accounts.models import Passkey, PersonSession, User
from apps.accounts.second_factor import factors, passkeys
from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from apps.notices.models import Notice
from apps.web.requests import limits
from tests.accounts.conftest import PASSWORD
from tests.accounts.passkey_device import Device, asked_by
from tests.accounts.second_factors import STEP_PAGE, enter, give_app, moved_by, opens, recovery_in
from tests.conftest import as_actor, client_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker", "https")]
URL = "https://portal.example"
MINE, ALONE = "/me/sign-in/passkeys/", "/sign-in/passkey/"


@pytest.fixture
def https(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.CONFIG, "public_url", URL)


def make(client: Client, device: Device, **typed: str) -> Any:
    asked = asked_by(client.get(MINE).content.decode())
    return client.post(MINE, {"name": "laptop", "password": PASSWORD, "answer": device.make(asked), **typed})


@pytest.fixture
def device(ada: User) -> Device:
    """Ada's."""
    device = Device(URL)
    assert make(client_of(ada), device).status_code == 200
    return device


def asked_after_password(client: Client) -> dict[str, Any]:
    assert enter(client)["Location"] == STEP_PAGE
    return asked_by(client.get(STEP_PAGE).content.decode())


def asked_alone(client: Client) -> dict[str, Any]:
    return asked_by(client.get(ALONE).content.decode())


def test_a_passkey_is_made_named_and_in_force(ada: User) -> None:
    client, other, device = client_of(ada), Client(), Device(URL)
    enter(other)
    asked = asked_by(client.get(MINE).content.decode())
    assert (asked["rp"], asked["user"]["name"]) == ({"id": "portal.example", "name": "Allotment"}, "ada")
    wrong = make(client, device, password="no")
    assert (wrong.status_code, Passkey.objects.count()) == (422, 0)
    answer = make(client, device)
    assert len(recovery_in(answer.content.decode())) == 10
    assert (opens(client), opens(other)) == (True, False)
    page = client.get("/me/sign-in/").content.decode()
    assert "Passkey laptop" in page
    assert AuditEvent.objects.get(action="user.set-second-factor").changes == {
        "second_factor": [None, "passkey laptop"]
    }
    assert "laptop" in Notice.objects.get().message
    again = make(client, device)
    assert (again.status_code, Passkey.objects.count()) == (409, 1)
    assert len(asked_by(client.get(MINE).content.decode())["excludeCredentials"]) == 1


@pytest.mark.parametrize("how", [{"verifies": True}, {"verifies": False}])
def test_after_the_password_any_passkey_of_theirs_opens(
    how: dict[str, bool], ada: User, device: Device
) -> None:
    client = Client()
    asked = asked_after_password(client)
    assert not opens(client)
    assert client.get("/").status_code == 302
    signed = replace(device, verifies=how["verifies"]).sign(asked)
    assert client.post(STEP_PAGE, {"answer": signed}).status_code == 303
    assert opens(client)
    assert PersonSession.objects.get().way == "password+passkey"
    assert Passkey.objects.get().used_at is not None


def test_a_passkey_alone_opens_where_its_device_knows_the_owner(ada: User, device: Device) -> None:
    client = Client()
    asked = asked_alone(client)
    assert (asked["userVerification"], "allowCredentials" in asked) == ("required", False)
    careless = client.post(ALONE, {"answer": replace(device, verifies=False).sign(asked)})
    assert careless.status_code == 422
    asked = asked_by(careless.content.decode())
    answer = client.post(ALONE, {"answer": device.sign(asked), "next": "/me/tokens/"})
    assert (answer.status_code, answer["Location"]) == (303, "/me/tokens/")
    assert opens(client)
    assert PersonSession.objects.get().way == "passkey"


def elsewhere(device: Device, asked: dict[str, Any]) -> str:
    return replace(device, origin="https://evil.example", host="portal.example").sign(asked)


def on_another_port(device: Device, asked: dict[str, Any]) -> str:
    return replace(device, origin=f"{URL}:8443").sign(asked)


def for_another_host(device: Device, asked: dict[str, Any]) -> str:
    return replace(device, host="evil.example").sign(asked)


def to_another_question(device: Device, asked: dict[str, Any]) -> str:
    return device.sign({**asked, "challenge": "A" * 43})


def by_another_key(device: Device, asked: dict[str, Any]) -> str:
    told, forged = json.loads(device.sign(asked)), Device(URL, key=ec.generate_private_key(ec.SECP256R1()))
    told["response"]["signature"] = json.loads(forged.sign(asked))["response"]["signature"]
    return json.dumps(told)


def by_an_unknown_one(_device: Device, asked: dict[str, Any]) -> str:
    return Device(URL).sign(asked)


def made_anew(device: Device, asked: dict[str, Any]) -> str:
    return device.make(asked)


WRONG = [elsewhere, on_another_port, for_another_host, to_another_question, by_another_key, by_an_unknown_one]


@pytest.mark.parametrize("wrong", [*WRONG, made_anew])
@pytest.mark.parametrize("place", [STEP_PAGE, ALONE])
def test_what_was_signed_otherwise_opens_nothing(
    place: str, wrong: Callable[[Device, dict[str, Any]], str], ada: User, device: Device
) -> None:
    client = Client()
    asked = asked_alone(client) if place == ALONE else asked_after_password(client)
    refused = client.post(place, {"answer": wrong(device, asked)})
    assert refused.status_code == 422
    assert passkeys.REFUSED in refused.content.decode()
    assert not opens(client)


@pytest.mark.parametrize(
    "answer",
    ["", "{", "[]", "1", "null", "{}", '{"rawId": 1}', '{"id":"AA","rawId":"AA","response":{}}', "[" * 9999],
)
def test_what_is_no_answer_is_refused_as_one(answer: str, ada: User, device: Device) -> None:
    for place, asks in ((ALONE, asked_alone), (STEP_PAGE, asked_after_password)):
        client = Client()
        asks(client)
        assert client.post(place, {"answer": answer}).status_code == 422
    client = client_of(ada)
    client.get(MINE)
    assert client.post(MINE, {"name": "x", "password": PASSWORD, "answer": answer}).status_code == 422
    assert Passkey.objects.count() == 1


def test_an_answer_counts_once_in_its_session_and_for_minutes(
    ada: User, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = Client(), Client()
    answer = device.sign(asked_alone(client))
    asked_alone(other)
    assert other.post(ALONE, {"answer": answer}).status_code == 422, "it was asked of another browser"
    assert client.post(ALONE, {"answer": answer}).status_code == 303
    client.post("/sign-out/")
    assert client.post(ALONE, {"answer": answer}).status_code == 422
    late = device.sign(asked_alone(client))
    moved_by(monkeypatch, passkeys.LIFE)
    assert client.post(ALONE, {"answer": late}).status_code == 422
    assert not opens(client)


def test_what_was_asked_after_a_password_opens_nobody_elses_account(ada: User, device: Device) -> None:
    """A key that was stolen and asks for no PIN, and the password of one's own account: not enough."""
    eve, client, own = User.objects.create_user("eve", password=PASSWORD), Client(), Device(URL)
    make(client_of(eve), own)
    assert enter(client, "eve")["Location"] == STEP_PAGE
    asked = asked_by(client.get(STEP_PAGE).content.decode())
    stolen = replace(device, verifies=False).sign(asked)
    assert client.post(ALONE, {"answer": stolen}).status_code == 422
    assert not opens(client)


def test_a_copy_of_a_device_that_counts_is_noticed(ada: User, device: Device) -> None:
    def status(uses: int) -> int:
        client = Client()
        signed = replace(device, uses=uses).sign(asked_alone(client))
        return client.post(ALONE, {"answer": signed}).status_code

    assert [status(uses) for uses in (0, 0, 7, 7, 3, 0, 8)] == [303, 303, 303, 422, 422, 422, 303]


def test_somebody_elses_passkey_is_no_second_factor(ada: User, device: Device) -> None:
    give_app(ada)
    other, client = Device(URL), Client()
    eve = User.objects.create_user("eve", password=PASSWORD)
    make(client_of(eve), other)
    asked = asked_after_password(client)
    assert client.post(STEP_PAGE, {"answer": other.sign(asked)}).status_code == 422
    assert not opens(client)


def test_a_passkey_alone_opens_no_closed_account_and_none_that_passwords_do_not_open(
    ada: User, device: Device, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> int:
        client = Client()
        return client.post(ALONE, {"answer": device.sign(asked_alone(client))}).status_code

    User.objects.update(is_active=False)
    assert status() == 422
    User.objects.update(is_active=True)
    monkeypatch.setattr(settings.CONFIG, "password_sign_in", "break-glass")
    assert status() == 422
    monkeypatch.setattr(settings.CONFIG, "break_glass_user", "ada")
    assert status() == 303
    assert PersonSession.objects.get().way == "break-glass+passkey"


def test_a_passkey_alone_opens_nothing_while_a_new_link_waits(ada: User, device: Device) -> None:
    engineer = make_user("petra", platform_role=PlatformRole.PLATFORM)
    asked_of = client_of(engineer).get("/console/users/ada/reset-password/").content.decode()
    assert "once there is a new password: 1 passkey." in asked_of
    assert "/console/users/ada/reset-second-factor/" in asked_of
    people.reset_password(actor=as_actor(engineer), user=ada, now=timezone.now())
    client = Client()
    refused = client.post(ALONE, {"answer": device.sign(asked_alone(client))})
    assert (refused.status_code, "with the link" in refused.content.decode()) == (409, True)
    assert not opens(client)


def test_nothing_of_half_a_sign_in_lives_on_in_another(
    ada: User, device: Device, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half signed in, with a life of 5 minutes, and then signed in by a way that asks for less."""
    make_user("otto", password=PASSWORD)
    client = Client()
    enter(client)
    assert enter(client, "otto")["Location"] == "/"
    assert (sign_in.STEP in client.session, "_session_expiry" in client.session) == (False, False)
    client.get(ALONE)
    stays = client.post(ALONE, {"answer": device.sign(asked_alone(Client()))})
    assert (stays.status_code, opens(client)) == (303, True), "who is in goes on, as on the page"
    assert client.get("/api/v1/me").json()["username"] == "otto"


def test_who_is_right_takes_no_tries_from_the_office(
    ada: User, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(limits, "give_back", lambda policy, *_: given.append(policy.name))
    client = Client()
    assert client.post(ALONE, {"answer": device.sign(asked_alone(client))}).status_code == 303
    assert given == ["passkey-address"]


def test_only_a_page_of_passkeys_may_ask_for_one(ada: User, device: Device) -> None:
    def allowed(client: Client, path: str) -> list[str]:
        policy = client.get(path)["Permissions-Policy"].split(", ")
        assert "camera=()" in policy
        return [each for each in policy if each.startswith("publickey") and each.endswith("=(self)")]

    client, half = client_of(ada), Client()
    enter(half)
    ask, create = ["publickey-credentials-get=(self)"], ["publickey-credentials-create=(self)"]
    assert [allowed(client, path) for path in (MINE, "/me/sign-in/", "/")] == [create, [], []]
    assert [allowed(half, path) for path in (STEP_PAGE, ALONE, "/sign-in/")] == [ask, ask, []]


def test_a_passkey_is_removed_by_who_shows_that_it_is_theirs(ada: User, device: Device) -> None:
    client, other = client_of(ada), client_of(User.objects.create_user("eve", password=PASSWORD))
    path = f"{MINE}{Passkey.objects.get().pk}/remove/"
    assert (other.get(path).status_code, client.get(f"{MINE}{uuid4()}/remove/").status_code) == (404, 404)
    assert "Remove the passkey laptop?" in client.get(path).content.decode()
    assert client.post(path, {"password": "no"}).status_code == 422
    assert client.post(path, {"password": PASSWORD}).status_code == 303
    assert not factors.is_set(ada)
    assert enter(Client())["Location"] == "/"


def test_the_last_factor_of_who_must_have_one_stays(
    ada: User, device: Device, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.update(platform_role=PlatformRole.PLATFORM)
    monkeypatch.setattr(settings.CONFIG, "second_factor", "engineers")
    client, path = client_of(ada), f"{MINE}{Passkey.objects.get().pk}/remove/"
    assert client.post(path, {"password": PASSWORD}).status_code == 409
    give_app(ada)
    client = client_of(ada)
    assert "asked for as before" in client.get("/me/sign-in/app/remove/").content.decode()
    assert client.post(path, {"password": PASSWORD}).status_code == 303
    assert factors.standing(ada).left == 10, "recovery codes go with the last one"


@pytest.mark.both_databases
def test_of_two_removals_at_once_the_second_sees_the_first(ada: User) -> None:
    give_app(ada)
    with CaptureQueriesContext(connection) as asked:
        factors.remove_app(actor=as_actor(ada), user=ada, here="", now=timezone.now())
    told = [each["sql"] for each in asked]
    held = next(at for at, sql in enumerate(told) if 'FROM "accounts_user"' in sql)
    if connection.vendor == "postgresql":
        assert "FOR NO KEY UPDATE" in told[held]
    assert held < next(at for at, sql in enumerate(told) if 'FROM "accounts_passkey"' in sql)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        (URL, 200),
        ("http://localhost:8000", 200),
        ("http://portal.example", 409),
        ("http://127.0.0.1:8000", 409),
        ("https://[::1]", 409),
    ],
)
def test_browsers_know_passkeys_for_a_name_alone(
    url: str, status: int, ada: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "public_url", url)
    client, is_offered = client_of(ada), status == 200
    assert client.get(MINE).status_code == status
    assert ("New passkey" in client.get("/me/sign-in/").content.decode()) is is_offered
    assert (ALONE in Client().get("/sign-in/").content.decode()) is is_offered
