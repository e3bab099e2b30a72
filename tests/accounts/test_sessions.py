"""Where somebody is signed in: listed, and ended at once, by oneself and by platform engineers."""

import uuid

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from apps.accounts import actors, sessions
from apps.accounts.models import PersonSession, User
from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from apps.web.problems.refusals import InvalidToken
from portal.pages.templatetags.page import browser
from tests.accounts.conftest import PASSWORD
from tests.conftest import client_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


def entered(agent: str = "Firefox") -> Client:
    client = Client(headers={"User-Agent": agent})
    assert client.post("/sign-in/", {"username": "ada", "password": PASSWORD}).status_code == 303
    return client


def opens(client: Client) -> bool:
    return client.get("/api/v1/me").status_code == 200


def test_the_page_lists_the_browsers_and_says_which_is_this_one(ada: User) -> None:
    first, _ = entered("Firefox of home"), entered("Chrome of work")
    page = first.get("/me/sign-in/").content.decode()
    assert "Firefox of home" in page
    assert "Chrome of work" in page
    assert page.count("this one") == 1
    assert PersonSession.objects.filter(way="password", user=ada).count() == 2


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36", "Chrome on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140",
            "Edge on Windows",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) Firefox/140.0", "Firefox on macOS"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.1", "curl/8.1"),
        ("", "unknown"),
    ],
)
def test_a_browser_is_called_as_people_know_it(agent: str, told: str) -> None:
    assert browser(agent) == told


def test_an_account_that_is_opened_again_is_signed_in_nowhere(ada: User) -> None:
    before, petra = entered(), client_of(make_user("platform", platform_role="platform"))
    for act in ("disable", "enable"):
        assert petra.post(f"/api/v1/users/ada/{act}", content_type="application/json").status_code == 200
    assert not opens(before)
    assert opens(entered())


def test_one_browser_is_signed_out_and_the_others_stay(ada: User) -> None:
    first, second = entered(), entered()
    row = PersonSession.objects.get(session_key=second.session.session_key)
    assert first.post(f"/me/sessions/{row.pk}/end/").status_code == 303
    assert (opens(first), opens(second)) == (True, False)
    assert AuditEvent.objects.filter(action="session.end").count() == 1


def test_everywhere_else_leaves_this_one(ada: User) -> None:
    first, *others = entered(), entered(), entered()
    assert first.post("/me/sessions/end/").status_code == 303
    assert opens(first)
    assert not any(opens(each) for each in others)


def test_nobody_ends_somebody_elses(ada: User) -> None:
    entered()
    row = PersonSession.objects.get()
    mallory = client_of(make_user("mallory"))
    assert mallory.post(f"/me/sessions/{row.pk}/end/").status_code == 404
    assert mallory.post(f"/me/sessions/{uuid.uuid4()}/end/").status_code == 404
    assert PersonSession.objects.exists()


def test_a_platform_engineer_signs_somebody_out_everywhere(ada: User) -> None:
    browsers = [entered(), entered()]
    credential = actors.Credential(ada.pk, session=browsers[0].session.session_key or "")
    assert actors.again(credential).username == "ada"
    petra = client_of(make_user("petra", platform_role=PlatformRole.PLATFORM))
    listed = petra.get("/api/v1/users/ada/sessions").json()["items"]
    assert [each["way"] for each in listed] == ["password", "password"]
    assert petra.delete("/api/v1/users/ada/sessions").status_code == 204
    assert not any(opens(each) for each in browsers)
    # What an open stream asks, a second after at the latest.
    with pytest.raises(InvalidToken):
        actors.again(credential)


def test_signing_out_takes_the_row_away(ada: User) -> None:
    entered().post("/sign-out/")
    assert not PersonSession.objects.exists()


def test_what_is_over_is_not_listed_and_forgotten_by_the_clock(ada: User) -> None:
    entered()
    Session.objects.update(expire_date=timezone.now())
    assert not sessions.sessions_of(ada, timezone.now()).exists()
    sessions.prune(timezone.now())
    assert not PersonSession.objects.exists()
    assert not Session.objects.exists()
