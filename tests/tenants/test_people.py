"""Inviting, renewing, closing and opening; service accounts and their tokens: over REST and on the pages."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts import people
from apps.accounts.models import ApiToken, Invitation, User
from apps.audit.models import AuditEvent
from apps.errors import Conflict, NotAllowed, NotFound
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.models import Membership, ServiceAccount, Tenant
from apps.tenants.people.services import person_access as tenancy
from apps.tenants.people.services import service_accounts
from tests.conftest import Cast, as_actor, generation
from tests.factories import NOW, make_workload
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases

PASSWORD = "correct horse battery"


@pytest.fixture
def petra(cast: Cast) -> Rest:
    return Rest(cast.petra)


def path_of(link: str) -> str:
    return "/invite/" + link.rstrip("/").rpartition("/")[2] + "/"


def signs_in(username: str, password: str) -> bool:
    return Client().login(username=username, password=password)


def test_an_invited_person_chooses_a_password_by_a_link_that_works_once(petra: Rest) -> None:
    made = petra.send("POST", "/users", {"username": "kim", "display_name": "Kim", "email": "kim@x.example"})
    assert (made.status_code, made.json()["active"], made.json()["tenants"]) == (201, True, {})
    path, browser = path_of(made.json()["link"]), Client()
    assert "Kim" in browser.get(path).content.decode()
    assert browser.post(path, {"password": "short", "again": "short"}).status_code == 422
    assert browser.post(path, {"password": PASSWORD, "again": "another one here"}).status_code == 422
    assert browser.post(path, {"password": PASSWORD, "again": PASSWORD}).status_code == 303
    assert signs_in("kim", PASSWORD)
    assert browser.get(path).status_code == 404
    assert browser.post(path, {"password": PASSWORD, "again": PASSWORD}).status_code == 404


def test_a_replay_never_shows_the_link_again_and_it_is_kept_nowhere(petra: Rest) -> None:
    first, again = (petra.send("POST", "/users", {"username": "kim"}, key="k") for _ in range(2))
    text = first.json()["link"].rstrip("/").rpartition("/")[2]
    assert again.json()["link"] is None
    assert text not in str(list(Invitation.objects.values()) + list(AuditEvent.objects.values()))


def test_a_link_ends_after_seven_days_and_with_the_next_one(cast: Cast) -> None:
    actor, now = as_actor(cast.petra), timezone.now()
    old = people.reset_password(actor=actor, user=cast.rosa, now=now)
    new = people.reset_password(actor=actor, user=cast.rosa, now=now)
    with pytest.raises(NotFound):
        people.invited(old, now)
    assert people.invited(new, now + timedelta(days=6)).user == cast.rosa
    with pytest.raises(NotFound):
        people.invited(new, now + timedelta(days=7))


def test_a_reset_ends_password_and_sessions(cast: Cast, petra: Rest) -> None:
    cast.rosa.set_password(PASSWORD)
    cast.rosa.save()
    browser = Client()
    assert browser.login(username="researcher", password=PASSWORD)
    assert petra.send("POST", "/users/researcher/reset-password").status_code == 200
    assert not signs_in("researcher", PASSWORD)
    assert browser.get("/").status_code == 302


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"username": "a b"}, "#/username"),
        ({"username": "kim", "email": "nothing"}, "#/email"),
        ({"username": "kim", "platform_role": "king"}, "#/platform_role"),
        ({"username": "kim", "password": "x"}, "#/password"),
    ],
)
def test_a_wrong_wish_names_its_field(petra: Rest, body: dict[str, Any], pointer: str) -> None:
    refused = petra.send("POST", "/users", body)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    assert not User.objects.filter(username="kim").exists()


def test_people_are_for_platform_engineers_and_auditors(cast: Cast) -> None:
    assert Rest(cast.leon).get("/users").json()["items"] == []
    assert len(Rest(cast.ann).get("/users").json()["items"]) == 5
    assert Rest(cast.leon).send("POST", "/users", {"username": "kim"}).status_code == 403
    assert Rest(cast.leon).get("/users/researcher").status_code == 404


def test_a_closed_account_opens_nothing_anywhere_and_opening_restores_it(
    cast: Cast, petra: Rest, access: InProcess
) -> None:
    rosa = Rest(cast.rosa)
    reconcile_tenant(cast.vision.pk, gateway=access)
    assert petra.send("POST", "/users/researcher/disable").json()["active"] is False
    assert rosa.get("/me").status_code == 401
    reconcile_tenant(cast.vision.pk, gateway=access)
    bound = [body for body in access.list("RoleBinding")[0] if body["metadata"]["name"].startswith("member-")]
    assert len(bound) == 1
    before = Tenant.objects.get(pk=cast.vision.pk).generation
    petra.send("POST", "/users/researcher/disable")
    assert Tenant.objects.get(pk=cast.vision.pk).generation == before
    access.mirror(cast.vision.cluster)
    petra.send("POST", "/users/researcher/enable")
    reconcile_tenant(cast.vision.pk, gateway=access)
    assert rosa.get("/me").json()["tenants"] == {"vision": "member"}
    bound = [body for body in access.list("RoleBinding")[0] if body["metadata"]["name"].startswith("member-")]
    assert len(bound) == 2


def test_nobody_closes_the_own_account(cast: Cast) -> None:
    with pytest.raises(Conflict, match="own account"):
        tenancy.set_active(actor=as_actor(cast.petra), user=cast.petra, is_active=False, now=NOW)


def test_a_service_account_acts_in_its_tenant_alone_and_makes_no_tokens(cast: Cast) -> None:
    leon = Rest(cast.leon)
    body = {"tenant": "vision", "slug": "nightly", "spec": {"role": "member"}}
    made = leon.send("POST", "/service-accounts", body)
    assert (made.status_code, made.json()["status"]["username"]) == (201, "vision.nightly")
    path = f"/service-accounts/{made.json()['id']}"
    token = leon.send("POST", f"{path}/tokens", {"name": "cron"}).json()
    assert token["tenants"] == ["vision"]
    robot = Client(headers={"Authorization": f"Bearer {token['token']}"})
    assert robot.get("/api/v1/me").json()["tenants"] == {"vision": "member"}
    refused = robot.post("/api/v1/tokens", {"name": "more"}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert [item["username"] for item in leon.get("/tenants/vision/members").json()["items"]] == [
        "lead",
        "researcher",
    ]
    changed = leon.send("PATCH", path, {"spec": {"role": "lead"}}, match='"1"')
    assert (changed.json()["spec"], generation(changed)) == ({"role": "lead"}, 2)
    assert leon.send("DELETE", path, match="*").status_code == 204
    assert robot.get("/api/v1/me").status_code == 401
    assert leon.get(path).status_code == 404
    assert not Membership.objects.filter(user__is_service=True).exists()
    assert leon.send("POST", "/service-accounts", body).status_code == 201


def test_a_token_of_a_service_account_is_revoked_at_once(cast: Cast) -> None:
    wish = service_accounts.AccountWish(cast.vision, "nightly", "", "member")
    account = service_accounts.create_account(actor=as_actor(cast.leon), wish=wish, now=NOW)
    leon, path = Rest(cast.leon), f"/service-accounts/{account.pk}/tokens"
    made = leon.send("POST", path, {"name": "cron", "scopes": ["workloads:read"]}).json()
    assert [item["name"] for item in leon.get(path).json()["items"]] == ["cron"]
    assert leon.send("DELETE", f"{path}/{made['id']}").status_code == 204
    assert leon.get(path).json()["items"] == []
    assert ApiToken.objects.get(pk=made["id"]).revoked_at is not None


def test_accounts_over_the_installation_are_made_by_platform_engineers(cast: Cast, petra: Rest) -> None:
    body = {"slug": "watcher", "spec": {"role": "auditor"}}
    made = petra.send("POST", "/service-accounts", body)
    assert (made.status_code, made.json()["tenant"]) == (201, None)
    assert User.objects.get(username="platform.watcher").platform_role == "auditor"
    wish = service_accounts.AccountWish(None, "second", "", "platform")
    with pytest.raises(NotAllowed):
        service_accounts.create_account(actor=as_actor(cast.leon), wish=wish, now=NOW)
    refused = petra.send("POST", "/service-accounts", {"slug": "x", "spec": {"role": "member"}})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/spec/role")


def test_a_lead_keeps_members_and_accounts_on_the_page(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.leon)
    added = browser.post("/t/vision/members/", {"username": "auditor", "role": "lead"})
    assert (added.status_code, added["Location"]) == (303, "/t/vision/members/")
    wrong = browser.post("/t/vision/members/", {"username": "nobody", "role": "lead"})
    assert wrong.status_code == 422
    assert "There is no user nobody" in wrong.content.decode()
    refused = browser.post("/t/vision/members/accounts/", {"slug": "", "role": "member"})
    summary = re.search(r'class="error-summary".*?</div>', refused.content.decode(), re.DOTALL)
    assert refused.status_code == 422
    assert summary
    assert 'href="#account_slug"' in summary[0]
    browser.post("/t/vision/members/remove/auditor/")
    assert not Membership.objects.filter(tenant=cast.vision, user=cast.ann).exists()
    made = browser.post("/t/vision/members/accounts/", {"slug": "nightly", "role": "member"})
    account = ServiceAccount.objects.get()
    assert made["Location"] == f"/t/vision/members/{account.pk}/"
    shown = browser.post(made["Location"], {"name": "cron", "days": 1, "reach_workloads": "write"})
    assert re.search(r"alt_[0-9A-Za-z]{49}", shown.content.decode())
    assert not re.search(r"alt_[0-9A-Za-z]{49}", browser.get(made["Location"]).content.decode())


def test_what_ends_access_asks_first_and_names_what_runs_on(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="rag-dev")
    cast.rosa.set_password(PASSWORD)
    cast.rosa.save()
    leon, petra = Client(), Client()
    leon.force_login(cast.leon)
    petra.force_login(cast.petra)
    members = leon.get("/t/vision/members/").content.decode()
    assert 'href="/t/vision/members/remove/researcher/"' in members, "a link, which changes nothing"
    for browser, path, words in (
        (leon, "/t/vision/members/remove/researcher/", "ends within a second"),
        (petra, "/console/users/researcher/reset-password/", "0 API tokens of theirs"),
        (petra, "/console/users/researcher/disable/", "signed out everywhere"),
    ):
        shown = " ".join(browser.get(path).content.decode().split())
        assert words in shown
        assert f"/t/vision/workloads/{row.pk}/" in shown
        assert "1 workload goes on" in shown
    assert Membership.objects.filter(tenant=cast.vision, user=cast.rosa).exists()
    cast.rosa.refresh_from_db()
    assert (cast.rosa.is_active, cast.rosa.has_usable_password()) == (True, True)


def test_the_end_of_a_service_account_asks_first_and_names_what_runs_on(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.leon)
    browser.post("/t/vision/members/accounts/", {"slug": "nightly", "role": "member"})
    account = ServiceAccount.objects.get()
    row = make_workload(cast.vision, account.user, cast.offer, slug="rag-dev")
    url = f"/t/vision/members/{account.pk}/delete/"
    shown = " ".join(browser.get(url).content.decode().split())
    assert "Its tokens end at once" in shown
    assert f"/t/vision/workloads/{row.pk}/" in shown
    page = browser.get(f"/t/vision/members/{account.pk}/").content.decode()
    assert f'href="{url}"' in page, "a link, which changes nothing"
    assert f'action="{url}"' not in page
    assert ServiceAccount.objects.exists()
    browser.force_login(cast.rosa)
    assert browser.get(url).status_code == 404, "a member knows of no account"
    browser.force_login(cast.leon)
    browser.post(url)
    assert not ServiceAccount.objects.exists()


def test_a_member_sees_the_members_and_no_form(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.rosa)
    page = browser.get("/t/vision/members/").content.decode()
    assert "lead" in page
    assert "Service accounts" not in page
    assert browser.post("/t/vision/members/", {"username": "auditor", "role": "lead"}).status_code == 403


def test_the_invitation_is_shown_once_on_the_page(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.petra)
    shown = browser.post("/console/users/", {"username": "kim", "display_name": "Kim"}).content.decode()
    found = re.search(r"/invite/[\w-]+/", shown)
    assert found
    assert Client().get(found[0]).status_code == 200
    assert found[0] not in browser.get("/console/users/").content.decode()
