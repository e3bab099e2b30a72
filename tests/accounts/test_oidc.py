"""Signing in with an organisation's provider: who comes in as whom, and every lie that is refused."""

import time
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import ExternalIdentity, SignInFlow, User
from apps.accounts.oidc import flows, identities, wire
from apps.accounts.oidc.client import Identity
from apps.accounts.oidc.flows import Brought
from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from apps.notices.models import Notice
from tests.accounts.conftest import PASSWORD
from tests.accounts.provider import STRANGE, FakeProvider, back, begin, come, configured, serving
from tests.conftest import client_of
from tests.factories import make_user

CONNECT = "/me/sign-in/acme/connect/"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker"), pytest.mark.both_databases]


def test_the_sign_in_page_has_a_button_for_each_provider(acme: FakeProvider, settings: Settings) -> None:
    configured(settings, acme.settings(), {**acme.settings("other"), "issuer": "https://other.example"})
    page = Client().get("/sign-in/?next=/notices/").content.decode()
    assert 'href="/sign-in/with/acme/?next=%2Fnotices%2F"' in page
    assert 'href="/sign-in/with/other/' in page


def test_the_way_there_carries_state_nonce_and_a_challenge(acme: FakeProvider) -> None:
    client = Client()
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begin(client)).query).items()}
    flow = SignInFlow.objects.get()
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert (asked["state"], asked["nonce"]) == (flow.state, flow.nonce)
    assert asked["redirect_uri"].endswith("/sign-in/with/acme/back/")
    assert flow.verifier not in str(asked)
    cookie = client.cookies["allotment_way_in"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert cookie.value != flow.digest


def test_the_first_sign_in_makes_the_person_without_any_right(acme: FakeProvider) -> None:
    client = Client()
    answer = come(acme, client, preferred_username="ada", name="Ada L.", email="ada@acme.example")
    assert answer.status_code == 303
    person = User.objects.get()
    assert (person.username, person.display_name, person.email) == ("ada", "Ada L.", "ada@acme.example")
    assert (person.platform_role, person.memberships.count()) == ("", 0)
    assert not person.has_usable_password()
    assert client.get("/api/v1/me").json()["username"] == "ada"
    assert [each.action for each in AuditEvent.objects.order_by("pk")] == ["user.create", "session.sign-in"]
    assert AuditEvent.objects.get(action="session.sign-in").changes == {"way": "oidc:acme"}


def test_pages_name_a_provider_as_its_button_does(acme: FakeProvider, settings: Settings) -> None:
    client = Client()
    come(acme, client, preferred_username="ada")
    page = " ".join(client.get("/me/sign-in/").content.decode().split())
    assert f'data-label="How">{acme.settings()["name"]}<' in page
    assert f"<li>{acme.settings()['name']} <" in page
    configured(settings, {**acme.settings("other"), "issuer": "https://other.example"})
    assert 'data-label="How">acme<' in client.get("/me/sign-in/").content.decode(), "it is set no more"


def test_the_same_subject_is_the_same_person_whatever_else_changes(acme: FakeProvider) -> None:
    come(acme, preferred_username="ada", email="ada@acme.example")
    come(acme, preferred_username="renamed", email="other@acme.example")
    assert User.objects.get().username == "ada"
    assert ExternalIdentity.objects.count() == 1


def test_the_way_on_leads_where_they_wanted_and_nowhere_else(acme: FakeProvider) -> None:
    for wanted, led in (("/notices/", "/notices/"), ("https://evil.example/", "/")):
        client = Client()
        answer = back(client, acme.sign_in(begin(client, next=wanted), {}))
        assert (answer.status_code, answer["Location"]) == (303, led)


@pytest.mark.parametrize("name", ["platform", "PLATFORM", "ada@acme.example"])
def test_neither_username_nor_mail_makes_somebody_else(name: str, acme: FakeProvider) -> None:
    boss = make_user("platform", platform_role=PlatformRole.PLATFORM)
    User.objects.filter(pk=boss.pk).update(email="boss@acme.example")
    client = Client()
    come(acme, client, preferred_username=name, email="boss@acme.example", email_verified=True)
    me = client.get("/api/v1/me").json()
    assert me["username"] != "platform"
    assert me["roles"] == []
    assert User.objects.count() == 2


@pytest.mark.parametrize("name", ["system:sweep", "../x", "<b>", "", "   ", "a" * 400, "a\0b", 7, ["x"]])
def test_a_hostile_name_becomes_a_harmless_one(name: Any, acme: FakeProvider) -> None:
    assert come(acme, preferred_username=name).status_code == 303
    made = User.objects.get().username
    assert made
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@+-")


NOW = int(time.time())
LIES: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "another audience": {"aud": "another-program"},
    "no audience": {"aud": None},
    "several audiences without a party": {"aud": ["allotment", "another-program"]},
    "several audiences for another party": {"aud": ["allotment", "x"], "azp": "x"},
    "another party": {"azp": "another-program"},
    "another nonce": {"nonce": "n" * 43},
    "no nonce": {"nonce": None},
    "a nonce that is no text": {"nonce": 7},
    "expired": {"iat": NOW - 4000, "exp": NOW - 3000},
    "no end": {"exp": None},
    "from the future": {"iat": NOW + 9000, "exp": NOW + 9999},
    "not yet": {"nbf": NOW + 9000},
    "nobody": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is no text": {"sub": 7},
    "a subject without end": {"sub": "s" * 300},
    "another access token": {"at_hash": "x" * 22},
    "groups elsewhere": {"_claim_names": {"groups": "src1"}},
}


@pytest.mark.parametrize("what", LIES)
def test_a_token_that_lies_is_refused(what: str, acme: FakeProvider) -> None:
    acme.lies = LIES[what]
    client = Client()
    answer = come(acme, client)
    assert answer.status_code == 403, what
    assert "There is a problem" in answer.content.decode()
    assert client.get("/api/v1/me").status_code == 401
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [("none", None), ("HS256", "a secret of the test" * 4), ("RS256", STRANGE), ("PS256", STRANGE)],
)
def test_a_signature_of_nobody_or_of_another_is_refused(algorithm: str, key: Any, acme: FakeProvider) -> None:
    acme.algorithm, acme.key = algorithm, key
    assert come(acme).status_code == 403
    assert not User.objects.exists()


def test_an_answer_is_taken_once_even_where_the_provider_takes_the_code_again(acme: FakeProvider) -> None:
    acme.takes_codes_again = True
    client = Client()
    cookie_of = begin(client)
    kept = client.cookies["allotment_way_in"].value
    brought = acme.sign_in(cookie_of, {})
    assert back(client, brought).status_code == 303
    again = Client()
    again.cookies["allotment_way_in"] = kept
    assert back(again, brought).status_code == 403
    assert again.get("/api/v1/me").status_code == 401


def test_a_code_of_another_sign_in_is_refused_by_its_verifier_and_its_nonce(acme: FakeProvider) -> None:
    victim, thief = Client(), Client()
    stolen = acme.sign_in(begin(victim), {"sub": "victim"}, code="stolen")
    own = acme.sign_in(begin(thief), {"sub": "thief"}, code="own")
    assert back(thief, {**own, "code": stolen["code"]}).status_code == 403
    assert thief.get("/api/v1/me").status_code == 401


def test_an_answer_for_another_browser_is_refused(acme: FakeProvider) -> None:
    asker, other = Client(), Client()
    brought = acme.sign_in(begin(asker), {})
    assert back(other, brought).status_code == 403
    begin(other)
    assert back(other, brought).status_code == 403
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "brought", [{}, {"state": ""}, {"state": "x", "code": "y"}, {"error": "access_denied"}]
)
def test_an_answer_without_the_state_is_refused(brought: dict[str, str], acme: FakeProvider) -> None:
    client = Client()
    begin(client)
    assert back(client, brought).status_code == 403


def test_a_person_who_said_no_there_is_told_so(acme: FakeProvider) -> None:
    client = Client()
    brought = acme.sign_in(begin(client), {})
    answer = back(client, {"state": brought["state"], "error": "access_denied"})
    assert answer.status_code == 403
    assert "did not sign you in (access_denied)" in answer.content.decode()


def test_a_sign_in_that_took_too_long_is_over(acme: FakeProvider) -> None:
    client = Client()
    brought = acme.sign_in(begin(client), {})
    SignInFlow.objects.update(expires_at=timezone.now())
    assert back(client, brought).status_code == 403


def test_an_answer_of_another_provider_is_refused(acme: FakeProvider, settings: Settings) -> None:
    """Mix-up: the browser began at one provider and is brought back as if from another."""
    with serving() as evil:
        configured(settings, acme.settings(), evil.settings("evil"))
        client = Client()
        brought = acme.sign_in(begin(client), {})
        evil.codes = acme.codes
        assert back(client, brought, "evil").status_code == 403
        client = Client()
        brought = acme.sign_in(begin(client), {})
        assert back(client, {**brought, "iss": evil.issuer}).status_code == 403
        acme.described = {"authorization_response_iss_parameter_supported": True}
        wire.forget()
        client = Client()
        assert back(client, acme.sign_in(begin(client), {})).status_code == 403
        client = Client()
        brought = acme.sign_in(begin(client), {})
        assert back(client, {**brought, "iss": acme.issuer}).status_code == 303


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_not_asked(described: Any, acme: FakeProvider) -> None:
    acme.described = described
    answer = Client().get("/sign-in/with/acme/")
    assert answer.status_code == 503
    assert "Try again in a minute." in answer.content.decode()
    assert not SignInFlow.objects.exists()


def test_a_provider_that_is_silent_leaves_the_other_ways_in(settings: Settings, ada: User) -> None:
    wire.forget()
    gone = {"slug": "acme", "name": "Acme", "issuer": "http://127.0.0.1:1", "client_id": "x"}
    configured(settings, gone)
    answer = Client().get("/sign-in/with/acme/")
    assert answer.status_code == 503
    assert "With a password" in answer.content.decode()


def test_groups_come_from_userinfo_where_the_token_has_none(acme: FakeProvider) -> None:
    acme.info = {"sub": "s-1", "groups": ["vision"]}
    assert come(acme).status_code == 303
    assert ExternalIdentity.objects.get().groups == ["vision"]


def test_userinfo_of_somebody_else_is_refused(acme: FakeProvider) -> None:
    acme.info = {"sub": "somebody-else", "groups": ["admins"]}
    assert come(acme).status_code == 403


def test_a_closed_account_does_not_come_back_through_the_provider(acme: FakeProvider) -> None:
    come(acme, preferred_username="ada", groups=[])
    User.objects.update(is_active=False)
    client = Client()
    answer = come(acme, client, preferred_username="ada", groups=[])
    assert answer.status_code == 403
    assert "is closed" in answer.content.decode()
    assert client.get("/api/v1/me").status_code == 401
    assert User.objects.count() == 1


def connect(client: Client, acme: FakeProvider, subject: str) -> Any:
    page = client.post(CONNECT, {"password": PASSWORD})
    flow = SignInFlow.objects.get()
    asked = f"state={flow.state}&nonce={flow.nonce}&code_challenge={_challenge(page)}"
    return acme.sign_in(f"{acme.issuer}/authorize?{asked}", {"sub": subject, "groups": []})


def _challenge(page: Any) -> str:
    return str(page.content.decode().partition("code_challenge=")[2].partition("&")[0])


def test_somebody_who_is_signed_in_connects_a_provider_and_comes_in_by_it(
    acme: FakeProvider, ada: User
) -> None:
    client = client_of(ada)
    assert [ask(CONNECT).status_code for ask in (client.get, client.post)] == [200, 422], "a session alone"
    answer = back(client, connect(client, acme, "s-ada"))
    assert (answer.status_code, answer["Location"]) == (303, "/me/sign-in/")
    assert Notice.objects.get(user=ada).message == "Acme signs you in from now on."
    assert "Acme" in client.get("/me/sign-in/").content.decode()
    fresh = Client()
    come(acme, fresh, sub="s-ada", groups=[])
    assert fresh.get("/api/v1/me").json()["username"] == "ada"


def test_nobody_connects_what_is_somebody_elses(acme: FakeProvider, ada: User) -> None:
    come(acme, sub="s-bob", preferred_username="bob", groups=[])
    client = client_of(ada)
    assert back(client, connect(client, acme, "s-bob")).status_code == 409
    assert ExternalIdentity.objects.get().user.username == "bob"


@pytest.mark.parametrize(("role", "status", "signs_in"), [("", 303, "ada"), ("auditor", 409, "ada-2")])
def test_what_signs_in_a_closed_account_is_connected_if_that_has_no_right(
    role: str, status: int, signs_in: str, acme: FakeProvider, ada: User
) -> None:
    come(acme, sub="s-ada", preferred_username="ada", groups=[])
    User.objects.filter(username="ada-2").update(is_active=False, platform_role=role)
    client = client_of(ada)
    assert back(client, connect(client, acme, "s-ada")).status_code == status
    assert ExternalIdentity.objects.get().user.username == signs_in


def test_connecting_counts_only_for_who_asked(acme: FakeProvider, ada: User) -> None:
    client = client_of(ada)
    brought = connect(client, acme, "s-ada")
    client.logout()
    begun = client.cookies["allotment_way_in"].value if "allotment_way_in" in client.cookies else ""
    other = client_of(make_user("mallory"))
    other.cookies["allotment_way_in"] = begun
    assert back(other, brought).status_code == 403
    assert not ExternalIdentity.objects.exists()


@pytest.mark.usefixtures("ada")
class TestBreakGlass:
    """Passwords switched off but for one account."""

    @pytest.fixture(autouse=True)
    def _closed(self, acme: FakeProvider, settings: Settings) -> None:
        configured(settings, acme.settings(), password_sign_in="break-glass", break_glass_user="ada")

    def test_the_account_opens_and_engineers_are_told(self) -> None:
        petra = make_user("petra", platform_role=PlatformRole.PLATFORM)
        answer = Client().post("/sign-in/", {"username": "ada", "password": PASSWORD})
        assert answer.status_code == 303
        assert AuditEvent.objects.get(action="session.sign-in").changes == {"way": "break-glass"}
        told = Notice.objects.get(user=petra)
        assert (told.kind, "ada" in told.message) == ("sign-in.break-glass", True)

    def test_everybody_elses_right_password_is_as_wrong_as_any(self) -> None:
        make_user("bob", password=PASSWORD)
        client = Client()
        answer = client.post("/sign-in/", {"username": "bob", "password": PASSWORD})
        assert answer.status_code == 422
        assert "The username or the password is wrong." in answer.content.decode()
        assert client.get("/api/v1/me").status_code == 401

    def test_nobody_is_sent_a_link_to_choose_a_password(self) -> None:
        petra = client_of(make_user("petra", platform_role=PlatformRole.PLATFORM))
        for path, body in (("users", {"username": "new"}), ("users/petra/reset-password", {})):
            answer = petra.post(f"/api/v1/{path}", body, content_type="application/json")
            assert (answer.status_code, "switched off" in answer.json()["detail"]) == (409, True)


def test_no_newcomer_is_called_like_the_break_glass_account(acme: FakeProvider, settings: Settings) -> None:
    configured(settings, acme.settings(), break_glass_user="Keeper")
    come(acme, preferred_username="keeper")
    assert User.objects.get().username == "keeper-2"


def test_two_first_answers_for_one_person_make_one(acme: FakeProvider) -> None:
    """What another request stored between the look and the write is found."""
    provider = flows.provider_of("acme")
    brought = Brought(provider, Identity(provider.issuer, "s-1", username="nina"), "/", None)
    first = identities.person_of(brought, now=timezone.now())
    with patch.object(identities, "_locked", side_effect=[None, ExternalIdentity.objects.get()]):
        assert identities.person_of(brought, now=timezone.now()) == first
    assert User.objects.count() == 1


def test_under_https_no_neighbour_can_plant_the_cookie_of_a_way_in(
    acme: FakeProvider, settings: Settings
) -> None:
    configured(settings, acme.settings(), public_url="https://portal.example")
    response = Client().get("/sign-in/with/acme/", secure=True)
    (cookie,) = response.cookies.values()
    assert cookie.key == "__Host-allotment_way_in"
    assert (cookie["path"], cookie["secure"], cookie["domain"]) == ("/", True, "")


@pytest.mark.parametrize("address", ["https://[", "https://a.example:port/", "https:///authorize"])
def test_an_address_that_is_none_is_no_safe_one(address: str, acme: FakeProvider) -> None:
    acme.described = {"authorization_endpoint": address}
    response = Client().get("/sign-in/with/acme/")
    assert (response.status_code, b"has no safe" in response.content) == (503, True)


def test_too_many_groups_are_said_and_not_cut(acme: FakeProvider) -> None:
    response = come(acme, groups=[f"g{number}" for number in range(1001)])
    assert (response.status_code, b"too many" in response.content) == (403, True)
