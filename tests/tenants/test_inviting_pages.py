"""Inviting by e-mail, on the team's page of members and in the console."""

import re

import pytest
from pytest_django import Settings

from apps.accounts.models import User
from apps.tenants.models import MemberInvitation, Membership
from tests.conftest import Cast, client_of
from tests.tenants.invitees import ALLOWED, KIM, configured, has_mail, invite

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def allowed(settings: Settings) -> None:
    configured(settings, invited_domains=ALLOWED)


LINK = re.compile(r'value="[^"]*(/invite/[\w-]+/)"')


@pytest.mark.usefixtures("allowed")
def test_the_members_page_says_which_of_the_three_it_was(cast: Cast) -> None:
    has_mail(cast.otto, "otto@bio.example")
    leon, path = client_of(cast.leon), "/t/vision/members/"

    def says(email: str) -> str:
        answer = leon.post(path, {"username": email, "role": "member"})
        assert (answer.status_code, "no-store" in answer["Cache-Control"]) == (200, True)
        return " ".join(answer.content.decode().split())

    assert "outsider is a member" in says("otto@bio.example")
    page = says(KIM)
    link = LINK.search(page)
    assert link is not None
    assert client_of(cast.rosa).get(link[1]).status_code == 200
    waiting = says("kim@other.example")
    assert "A platform engineer approves it first" in waiting
    assert not LINK.search(waiting)
    row = MemberInvitation.objects.get(status="open")
    withdraw = f"{path}invitations/{row.pk}/withdraw/"
    assert withdraw in waiting
    assert "kim@other.example" not in client_of(cast.rosa).get(path).content.decode()
    assert client_of(cast.rosa).post(withdraw).status_code == 404
    assert leon.post(withdraw).status_code == 303
    assert withdraw not in leon.get(path).content.decode()


def test_the_members_form_names_a_wrong_address_at_its_field(cast: Cast) -> None:
    answer = client_of(cast.leon).post("/t/vision/members/", {"username": "kim@", "role": "member"})
    assert answer.status_code == 422
    assert 'id="id_username_error"' in answer.content.decode()


def test_a_username_with_an_at_is_that_account(cast: Cast) -> None:
    User.objects.create_user("kim@lab.example")
    answer = client_of(cast.leon).post("/t/vision/members/", {"username": KIM, "role": "member"})
    assert answer.status_code == 303
    assert Membership.objects.filter(tenant=cast.vision, user__username=KIM).exists()


def test_the_console_shows_what_waits_and_the_link_to_who_approves(cast: Cast) -> None:
    rows = [invite(cast.leon, cast.vision, f"{name}@x.example").row for name in ("kim", "lee")]
    petra, path = client_of(cast.petra), f"/console/requests/invitations/{rows[0].pk}/"
    assert "2 invitations" in petra.get("/console/").content.decode()
    listed = petra.get("/console/requests/").content.decode()
    assert path in listed
    assert "<strong>2 wait for a decision</strong>" in listed
    assert 'value="approve"' not in client_of(cast.ann).get(path).content.decode()
    assert client_of(cast.leon).get(path).status_code == 404
    answer = petra.post(path, {"decision": "approve", "reason": ""})
    page = answer.content.decode()
    assert LINK.search(page)
    assert 'value="approve"' not in page
    assert not LINK.search(petra.get(path).content.decode())
    other = f"/console/requests/invitations/{rows[1].pk}/"
    assert petra.post(other, {"decision": "decline", "reason": ""}).status_code == 422
    assert petra.post(other, {"decision": "decline", "reason": "no"}).status_code == 303
    assert "Nothing waits for a decision" in petra.get("/console/requests/").content.decode()
