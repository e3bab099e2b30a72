"""Accounts that a reader would take for one another are not made, wherever accounts are made."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts import services
from apps.accounts.models import User
from apps.accounts.specs import system_actor
from apps.errors import AlreadyExists, DomainError
from apps.notices.models import Notice
from apps.tenants.people.services import service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.web.shapes.likeness import is_like, mixed_scripts
from tests.accounts.provider import FakeProvider, come
from tests.conftest import Cast, SignedIn, as_actor
from tests.factories import make_user
from tests.tenants.rest import Rest

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
CYRILLIC = "ј.ԁое"
"""Each letter is Cyrillic."""
ALIKE = ("J.Doe", "j.doe", "ｊ.doe", CYRILLIC)


@pytest.mark.parametrize(
    ("one", "other"),
    [("j.doe", "J.DOE"), ("vision", "vіsіоn"), ("ТОМ", "tom"), ("straße", "STRASSE"), ("ρορ", "pop")],
)
def test_capitals_widths_and_letters_of_other_scripts_make_no_other_name(one: str, other: str) -> None:
    assert is_like(one, other)
    assert not is_like(one, f"{other}-2")


def test_a_name_keeps_to_one_of_the_scripts_that_share_looks() -> None:
    assert mixed_scripts("rоsa") == ["Latin", "Cyrillic"]
    assert [mixed_scripts(text) for text in ("rosa", "роза", "rosa-1", "松本rosa", "")] == [[]] * 5


def by_rest(cast: Cast, username: str) -> None:
    answer = Rest(cast.petra).send("POST", "/users", {"username": username})
    if answer.status_code != 201:
        raise AlreadyExists(answer.json()["detail"])


def by_service(_: Cast, username: str) -> None:
    services.create_user(
        actor=system_actor("test"), username=username, display_name="", password=None, platform_role=""
    )


MAKING: list[Callable[[Cast, str], None]] = [by_rest, by_service]


@pytest.mark.parametrize("make", MAKING)
@pytest.mark.parametrize("name", ALIKE)
def test_a_username_like_another_is_refused_by_the_name_of_that(
    cast: Cast, make: Callable[[Cast, str], None], name: str
) -> None:
    make(cast, "j.doe")
    with pytest.raises(DomainError, match=r"j\.doe"):
        make(cast, name)
    with pytest.raises(DomainError, match="mixes Latin and Cyrillic letters"):
        make(cast, "kаrl")
    make(cast, "j.doe-2")


def test_an_account_for_automation_is_refused_too(cast: Cast) -> None:
    make_user("Vision.Bot")
    wish = AccountWish(cast.vision, "bot", "", "member")
    with pytest.raises(AlreadyExists, match=r"resembles Vision\.Bot"):
        service_accounts.create_account(actor=as_actor(cast.petra), wish=wish, now=timezone.now())


def test_the_console_says_whom_the_name_resembles(cast: Cast, signed_in: SignedIn) -> None:
    sent = {"username": "Researcher", "display_name": "", "email": "", "platform_role": ""}
    answer = signed_in(cast.petra).post("/console/users/", sent)
    assert "resembles researcher" in answer.content.decode()


def test_an_e_mail_is_one_persons_whatever_its_capitals(cast: Cast) -> None:
    petra = Rest(cast.petra)
    first = {"username": "ada", "email": "ada@acme.example"}
    assert petra.send("POST", "/users", first).status_code == 201
    for email in ("Ada@ACME.example", "ada@acme.example"):
        answer = petra.send("POST", "/users", {"username": "else", "email": email})
        assert (answer.status_code, answer.json()["code"]) == (409, "already_exists")
        assert "is that of ada" in answer.json()["detail"]
    assert petra.send("POST", "/users", {"username": "else", "email": ""}).status_code == 201


def test_who_comes_by_a_provider_is_let_in_by_another_name_and_told_of_the_e_mail(acme: FakeProvider) -> None:
    User.objects.filter(pk=make_user("ј.ԁое").pk).update(email="J.Doe@acme.example")
    client = Client()
    come(acme, client, preferred_username="J.Doe", email="j.doe@acme.example")
    me = client.get("/api/v1/me").json()
    assert me["username"] == "J.Doe-2"
    made = User.objects.get(username="J.Doe-2")
    assert made.email == ""
    assert "ask a platform engineer to disable this one" in Notice.objects.get(user=made).message
