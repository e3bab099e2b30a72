"""Guessing is slow from wherever it comes, nobody is shut out by a stranger, and every door is counted."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import django.contrib.auth
import pytest
from django.contrib.auth import hashers
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import people, tokens, tries
from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.web.requests import limits, strangers
from tests.accounts.conftest import PASSWORD
from tests.accounts.second_factors import STEP_PAGE, give_app
from tests.conftest import as_actor
from tests.factories import make_user
from tests.matrix.routes import API, served, template

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "one_window", "quick_hasher")]
WRONG = "wrong"
NOW = timezone.now().replace(minute=7, second=3)


@pytest.fixture
def one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by the calendar's windows: these all fall into one."""
    at = limits._allowance
    monkeypatch.setattr(limits, "_allowance", lambda policy, who, _, ask: at(policy, who, NOW, ask))
    strangers.forget()


@pytest.fixture
def quick_hasher(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def rosa() -> User:
    return make_user("rosa", password=PASSWORD)


def enter(client: Client, username: str = "rosa", password: str = WRONG, **how: Any) -> int:
    return client.post("/sign-in/", {"username": username, "password": password}, **how).status_code


def at(address: str) -> Client:
    return Client(REMOTE_ADDR=address)


def test_who_writes_other_addresses_into_the_request_is_still_one(rosa: User) -> None:
    client = Client()
    statuses = [
        enter(client, headers={"X-Forwarded-For": f"192.0.2.{number}", "X-Real-IP": f"192.0.2.{number}"})
        for number in range(12)
    ]
    assert statuses == [422] * 5 + [429] * 7


def test_two_clients_behind_a_declared_proxy_are_two_and_what_they_invent_is_nothing(
    rosa: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "trusted_proxies", "10.0.0.0/24")
    proxy = at("10.0.0.7")
    invented = [enter(proxy, headers={"X-Forwarded-For": f"8.8.8.{n}, 192.0.2.1"}) for n in range(7)]
    assert invented == [422] * 5 + [429] * 2
    assert enter(proxy, headers={"X-Forwarded-For": "192.0.2.2"}) == 422


def test_spraying_names_from_one_address_is_slowed(rosa: User) -> None:
    client = at("192.0.2.1")
    statuses = [enter(client, f"name-{number}") for number in range(30)]
    assert statuses == [422] * 20 + [429] * 10
    refused = client.post("/sign-in/", {"username": "rosa", "password": PASSWORD})
    assert (refused.status_code, int(refused["Retry-After"]) <= 60) == (429, True)
    assert enter(at("192.0.2.2"), password=PASSWORD) == 303


def test_an_office_that_signs_in_at_nine_is_not_slowed(rosa: User) -> None:
    assert [enter(at("192.0.2.1"), password=PASSWORD) for _ in range(40)] == [303] * 40


def test_a_strangers_hundred_failures_do_not_stop_the_owner_in_her_own_browser(rosa: User) -> None:
    hers = at("192.0.2.250")
    assert enter(hers, password=PASSWORD) == 303
    hers.post("/sign-out/")
    statuses = [enter(at(f"198.51.100.{number // 4}")) for number in range(100)]
    assert statuses == [422] * 50 + [429] * 50
    # A browser she never used waits, from wherever; her own does not, wherever she carries it.
    assert enter(at("192.0.2.250"), password=PASSWORD) == 429
    hers.defaults["REMOTE_ADDR"] = "198.51.100.1"
    assert enter(hers, password=PASSWORD) == 303


def test_her_own_browser_guesses_no_faster(rosa: User) -> None:
    hers = at("192.0.2.250")
    enter(hers, password=PASSWORD)
    assert [enter(hers) for _ in range(7)] == [422] * 5 + [429] * 2


def test_a_browsers_mark_is_signed_for_one_account_and_hidden_from_scripts(rosa: User) -> None:
    make_user("otto", password=PASSWORD)
    own = at("192.0.2.1")
    enter(own, "otto", PASSWORD)
    ((name, mark),) = ((key, each) for key, each in own.cookies.items() if "device" in key)
    assert (mark["httponly"], mark["samesite"], mark["path"]) == (True, "Strict", "/sign-in/")
    assert "otto" not in name + mark.value
    assert mark["max-age"] == timedelta(days=365).total_seconds()
    for number in range(60):
        enter(at(f"198.51.100.{number // 4}"))
    forged = at("192.0.2.1")
    forged.cookies[tries._cookie(tries._account("rosa"))] = mark.value
    assert enter(forged, password=PASSWORD) == 429


@pytest.mark.parametrize("public_url", ["", "https://allotment.example.org"])
def test_a_browsers_mark_follows_the_scheme(
    public_url: str, rosa: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "public_url", public_url)
    client = Client()
    enter(client, password=PASSWORD)
    ((name, mark),) = ((key, each) for key, each in client.cookies.items() if "device" in key)
    assert (bool(mark["secure"]), name.startswith("__Secure-")) == (
        (True, True) if public_url else (False, False)
    )


def test_a_new_link_lets_the_owner_in_while_others_fill_the_limit(rosa: User) -> None:
    petra = as_actor(make_user("petra", platform_role=PlatformRole.PLATFORM))
    for number in range(60):
        enter(at(f"198.51.100.{number // 4}"))
    hers = at("192.0.2.250")
    assert enter(hers, password=PASSWORD) == 429
    text = people.reset_password(actor=petra, user=rosa, now=timezone.now())
    chosen = "another long enough one"
    assert hers.post(f"/invite/{text}/", {"password": chosen, "again": chosen}).status_code == 303
    assert enter(hers, password=chosen) == 303


def test_codes_are_slowed_at_an_address_and_take_no_tries_from_what_nobody_guesses(rosa: User) -> None:
    _, made = give_app(rosa)
    thief = at("198.51.100.1")
    assert enter(thief, password=PASSWORD) == 303, "the password is right, so it is not counted"
    wrong = [thief.post(STEP_PAGE, {"code": "000000"}).status_code for _ in range(6)]
    assert wrong == [422] * 5 + [429]
    hers = at("198.51.100.1")
    assert enter(hers, password=PASSWORD) == 303
    assert hers.post(STEP_PAGE, {"recovery": made[0]}).status_code == 303
    recovery = [thief.post(STEP_PAGE, {"recovery": "0"}).status_code for _ in range(22)]
    assert recovery == [422] * 20 + [429] * 2


def test_strangers_take_no_tries_from_who_is_signed_in(rosa: User) -> None:
    give_app(rosa)
    for number in range(60):
        enter(at(f"198.51.100.{number // 4}"))
    hers, thief = Client(), Client()
    hers.force_login(rosa)
    thief.force_login(rosa)
    page = "/me/sign-in/recovery-codes/"
    answers = [thief.post(page, {"password": WRONG}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [422] * 5 + [429]
    assert "nothing was changed" in answers[-1].content.decode()
    assert hers.post(page, {"password": PASSWORD}).status_code == 200


def test_all_together_have_a_ceiling(rosa: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "OVERALL", replace(tries.OVERALL, quota=10))
    statuses = [enter(at(f"198.51.100.{number}"), f"name-{number}") for number in range(14)]
    assert statuses == [422] * 10 + [429] * 4


def test_ways_to_a_provider_take_no_tries_from_passwords(
    rosa: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the provider broken everybody presses its button; the break-glass password still opens."""
    said = [{"slug": "acme", "name": "Acme", "issuer": "https://127.0.0.1:9", "client_id": "x"}]
    settings.CONFIG = settings.CONFIG.model_copy(update={"oidc": json.dumps(said)})
    for name in ("OVERALL", "TO_PROVIDERS"):
        monkeypatch.setattr(tries, name, replace(getattr(tries, name), quota=10), raising=False)
    pressed = [at(f"198.51.100.{number}").get("/sign-in/with/acme/").status_code for number in range(12)]
    assert pressed == [503] * 10 + [429] * 2
    assert enter(at("192.0.2.1"), password=PASSWORD) == 303


def test_what_a_narrow_limit_refuses_fills_no_wider_one(rosa: User) -> None:
    for _ in range(100):
        enter(at("198.51.100.1"))
    account = limits.left(tries.OF_ACCOUNT, tries._account("rosa"), NOW)
    assert account
    assert account.remaining == tries.OF_ACCOUNT.quota - 5 - 1


def test_known_and_unknown_accounts_are_refused_alike(rosa: User) -> None:
    def told(username: str) -> list[tuple[int, str]]:
        client, found = at("192.0.2.1"), []
        for _ in range(7):
            answer = client.post("/sign-in/", {"username": username, "password": WRONG})
            words = answer.content.decode().partition('class="error-summary"')[2].partition("</div>")[0]
            assert words
            found.append((answer.status_code, words.replace(username, "")))
        return found

    assert [status for status, _ in told("rosa")] == [422] * 5 + [429] * 2
    cache.clear()
    known = told("rosa")
    cache.clear()
    assert known == told("nobody")


def test_known_and_unknown_accounts_cost_one_hash_each(rosa: User, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    hasher = hashers.get_hasher()
    real = type(hasher).encode
    monkeypatch.setattr(type(hasher), "encode", lambda *given: made.append("hash") or real(*given))  # type: ignore[func-returns-value]
    User.objects.create(username="invited", password=hashers.make_password(None))
    costs = []
    for name in ("rosa", "nobody", "invited"):
        made.clear()
        enter(at("192.0.2.1"), name)
        costs.append(len(made))
    assert costs == [1, 1, 1]


def test_links_that_open_nothing_are_counted_and_one_that_opens_is_not(rosa: User) -> None:
    petra = as_actor(make_user("petra", platform_role=PlatformRole.PLATFORM))
    text = people.reset_password(actor=petra, user=rosa, now=timezone.now())
    client = at("192.0.2.1")
    assert [client.get(f"/invite/{text}/").status_code for _ in range(30)] == [200] * 30
    statuses = [client.get(f"/invite/{number}/").status_code for number in range(24)]
    assert statuses == [404] * 20 + [429] * 4
    refused = client.get("/invite/x/")
    assert 0 < int(refused["Retry-After"]) <= 60
    assert at("192.0.2.2").get(f"/invite/{text}/").status_code == 200


# Every door: whatever a route does to check a password or a secret passes one of these.
CHECKS = (tokens.digest, django.contrib.auth.authenticate, hashers.check_password)
FORM = dict.fromkeys(("username", "password", "again", "text", "token", "code", "link", "secret"), "wrong")


class Watch:
    """Counts how often a secret was checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked = 0
        for real in CHECKS:
            for module in list(sys.modules.values()):
                if getattr(module, "__name__", "").partition(".")[0] in ("apps", "portal", "django"):
                    for name in [name for name, value in vars(module).items() if value is real]:
                        monkeypatch.setattr(module, name, self._counting(real))

    def _counting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def check(*given: Any, **named: Any) -> Any:
            self.checked += 1
            return real(*given, **named)

        return check


def doors() -> Iterator[tuple[str, str]]:
    """Every route that is served, by each way of asking that may bring a secret."""
    for route in served():
        for method in ("get",) if route.startswith(API) else ("get", "post"):
            yield method, route


def knock(watch: Watch, method: str, route: str) -> tuple[Any, int]:
    """As somebody who guesses: another secret each time, in every place where one may be. What is answered,
    and how often a secret was checked for it.
    """
    steps = template(route)
    while "{" in steps:
        before, _, rest = steps.partition("{")
        steps = f"{before}{uuid4()}{rest.partition('}')[2]}"
    bearer = f"Bearer {tokens.generate(os.urandom(32)).text}"
    client = Client(
        headers={"Authorization": bearer} if route.startswith(API) else {}, raise_request_exception=False
    )
    watch.checked = 0
    return getattr(client, method)(steps, FORM), watch.checked


def test_every_view_that_checks_a_secret_is_throttled(rosa: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tries, limits):
        for name, policy in vars(module).items():
            if isinstance(policy, limits.Policy):
                monkeypatch.setattr(module, name, replace(policy, quota=2))
    watch, found, open_doors = Watch(monkeypatch), set(), []
    for method, route in doors():
        cache.clear()
        if not knock(watch, method, route)[1]:
            continue
        found.add((method, route))
        knock(watch, method, route)
        refused, checked = knock(watch, method, route)
        if (refused.status_code, refused.has_header("Retry-After"), checked) != (429, True, 0):
            open_doors.append((method, route, refused.status_code))
    assert open_doors == []
    assert {("post", "/sign-in/"), ("get", "/invite/<str:text>/"), ("post", "/invite/<str:text>/")} <= found
    assert len(found) > 80


def test_invalid_tokens_are_refused_before_they_are_looked_up(
    django_assert_num_queries: Any, bearer: Callable[..., Client]
) -> None:
    def guess() -> Any:
        text = tokens.generate(os.urandom(32)).text
        return Client(headers={"Authorization": f"Bearer {text}"}).get("/api/v1/me")

    known = bearer()
    assert known.get("/api/v1/me").status_code == 200
    told = [guess() for _ in range(60)]
    assert {answer.status_code for answer in told} == {401}
    assert (told[0]["RateLimit-Policy"], told[0]["RateLimit"][:14]) == (
        '"address";q=60;w=60',
        '"address";r=59',
    )
    with django_assert_num_queries(0):
        refused = guess()
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused["Retry-After"]) <= 60
    # Who works from behind the same address goes on; so does everybody elsewhere.
    assert known.get("/api/v1/me").status_code == 200
    assert Client(REMOTE_ADDR="192.0.2.9").get("/api/v1/me").status_code == 401


def test_requests_without_any_credential_are_counted_too() -> None:
    statuses = [Client().get("/api/v1/me").status_code for _ in range(62)]
    assert statuses == [401] * 60 + [429] * 2


def test_a_session_is_counted_per_person(rosa: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION", replace(limits.SESSION, quota=3))
    first, second, other = Client(), Client(), Client()
    first.force_login(rosa)
    second.force_login(rosa)
    other.force_login(make_user("otto"))
    answers = [client.get("/api/v1/me") for client in (first, second, first, second)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[0]["RateLimit-Policy"] == '"session";q=3;w=60'
    assert other.get("/api/v1/me").status_code == 200


def test_the_memory_of_credentials_is_bounded(rosa: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST_KNOWN", 2)
    for _ in range(4):
        client = Client()
        client.force_login(rosa)
        assert client.get("/api/v1/me").status_code == 200
    assert len(strangers._known) == 2
