"""What a browser that views somebody gets: the person's pages, a banner, and no way to change anything."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from apps.accounts import actors
from apps.accounts import services as accounts
from apps.accounts.actors import Credential
from apps.accounts.models import User, Viewing
from apps.accounts.specs import ViewEnd
from apps.audit import services as audit
from apps.audit.models import AuditEvent
from apps.errors import NotAllowed
from apps.notices.models import Notice
from apps.web.problems.refusals import InvalidToken
from portal.viewing import CLOSED, OWN
from tests.accounts.views import REASON, header_of, looking, somewhere, view_of
from tests.conftest import Cast, as_actor, client_of
from tests.factories import make_workload
from tests.matrix import routes
from tests.sample import every
from tests.web.broker import broker, no_broker, redis_server
from tests.workloads.asking import submit

__all__ = ["broker", "no_broker", "redis_server"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
BANNER = "You see the portal as"
HTML = {"Accept": "text/html"}


@pytest.fixture
def viewed(cast: Cast) -> Client:
    """Petra's browser, as Rosa."""
    return looking(cast.petra, cast.rosa)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def over(client: Client) -> Viewing:
    """Its time is over, and nobody has said so yet."""
    view = view_of(client)
    Viewing.objects.filter(pk=view.pk).update(ends_at=timezone.now() - timedelta(seconds=1))
    return view


def test_it_begins_on_the_persons_first_page_and_the_banner_stays(cast: Cast) -> None:
    client = client_of(cast.petra)
    asked = f"/console/users/{cast.leon.username}/view-as/"
    assert "Why" in text(client.get(asked))
    answer = client.post(asked, {"reason": REASON})
    assert (answer.status_code, answer["Location"]) == (303, "/t/vision/")
    until = f"{view_of(client).ends_at:%H:%M}"
    for path in ("/", "/t/vision/", "/t/vision/members/", "/notices/", "/no-such-page/", "/t/genomics/"):
        page = text(client.get(path))
        assert BANNER in page, path
        assert until in page, path
        assert cast.leon.shown_name in page


@pytest.mark.parametrize("reason", ["", "   "])
def test_without_a_reason_it_does_not_begin(cast: Cast, reason: str) -> None:
    client = client_of(cast.petra)
    answer = client.post(f"/console/users/{cast.rosa.username}/view-as/", {"reason": reason})
    assert answer.status_code == 422
    assert BANNER not in text(client.get("/"))


def test_scope_is_the_persons_on_pages_and_over_rest(cast: Cast, viewed: Client) -> None:
    make_workload(cast.genomics, cast.otto, cast.offer)
    assert client_of(cast.petra).get("/t/genomics/").status_code == 200
    assert viewed.get("/t/genomics/").status_code == 404
    assert viewed.get("/console/").status_code == 404
    assert viewed.get("/api/v1/me").json()["username"] == cast.rosa.username
    assert [each["slug"] for each in viewed.get("/api/v1/tenants").json()["items"]] == ["vision"]


def test_what_a_browser_kept_of_oneself_is_not_taken_for_the_persons(cast: Cast) -> None:
    client = client_of(cast.petra)
    kept = {"If-None-Match": client.get("/api/v1/me")["ETag"]}
    assert client.get("/api/v1/me", headers=kept).status_code == 304
    client.post(f"/console/users/{cast.rosa.username}/view-as/", {"reason": REASON})
    answer = client.get("/api/v1/me", headers=kept)
    assert (answer.status_code, answer.json()["username"]) == (200, cast.rosa.username)
    assert client.get("/")["Cache-Control"] == "no-store"


def test_the_person_has_no_banner(cast: Cast, viewed: Client) -> None:
    assert BANNER in text(viewed.get("/"))
    assert BANNER not in text(client_of(cast.rosa).get("/"))


UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
ROUTES = sorted(routes.served())


@pytest.mark.parametrize("method", UNSAFE)
def test_every_address_refuses_every_unsafe_method(viewed: Client, method: str) -> None:
    own = {"/view-as/end/", "/sign-out/"}
    before = AuditEvent.objects.count()
    for route in every(6, [each for each in ROUTES if each not in own], UNSAFE.index(method)):
        answer = viewed.generic(method, somewhere(route), headers={"If-Match": "*"})
        assert answer.status_code == 403, route
        assert "read-only" in text(answer), route
    assert AuditEvent.objects.count() == before
    assert BANNER in text(viewed.get("/"))


def test_every_address_that_is_named_here_is_served() -> None:
    names = {key for key in get_resolver().reverse_dict if isinstance(key, str)}
    assert {*CLOSED, *OWN} <= names


def test_what_opens_or_hands_out_is_refused_to_a_get_too(cast: Cast, viewed: Client) -> None:
    row = submit(cast)
    for path in (
        f"/open/{row.pk}/",
        f"/open/{row.pk}/?code=x&browser=y",
        f"/t/vision/workloads/{row.pk}/terminal/",
        "/t/vision/members/kubeconfig/",
        "/api/v1/tenants/vision/kubeconfig",
        "/me/tokens/",
        "/api/v1/tokens",
        "/invite/x/",
        "/me/sign-in/passkeys/",
        "/me/sign-in/ssh-keys/",
        "/me/sign-in/recovery-codes/",
    ):
        answer = viewed.get(path)
        assert (answer.status_code, "theirs alone" in text(answer)) == (403, True), path
    assert viewed.get(f"/t/vision/workloads/{row.pk}/").status_code == 200


def test_a_form_of_htmx_gets_the_refusal_for_its_box(viewed: Client) -> None:
    answer = viewed.post("/notices/", headers=header_of(viewed))
    assert (answer.status_code, answer["HX-Retarget"]) == (403, "#problem")
    assert "read-only" in text(answer)
    assert "<html" not in text(answer)


def test_messages_stay_unread(cast: Cast, viewed: Client) -> None:
    Notice.objects.create(user=cast.rosa, kind="grant.given", message="more", created_at=timezone.now())
    assert "more" in text(viewed.get("/notices/"))
    assert viewed.post("/notices/").status_code == 403
    assert Notice.objects.filter(read_at=None).count() == 1


def test_nothing_is_recorded_in_the_persons_name(cast: Cast, viewed: Client) -> None:
    request: Any = viewed.get("/").wsgi_request
    actor = request.actor
    assert (actor.username, actor.viewed_by) == (cast.rosa.username, cast.petra.username)
    assert request.viewer == cast.petra
    with pytest.raises(NotAllowed), transaction.atomic():
        audit.record(actor, "user.update", cast.rosa, now=timezone.now())


def test_what_outlives_a_request_is_the_persons_only_while_the_view_lasts(cast: Cast, viewed: Client) -> None:
    key, view = str(viewed.session.session_key), view_of(viewed)
    known = Credential(cast.rosa.pk, session=key, view=view.pk)
    assert actors.again(known).viewed_by == cast.petra.username
    assert actors.again(Credential(cast.petra.pk, session=key)).username == cast.petra.username
    with pytest.raises(InvalidToken):
        actors.again(Credential(cast.rosa.pk, session=key))
    with pytest.raises(InvalidToken):
        actors.maker(known)
    over(viewed)
    with pytest.raises(InvalidToken):
        actors.again(known)


def test_a_token_in_the_same_browser_is_no_view(cast: Cast, viewed: Client) -> None:
    actor = as_actor(cast.petra)
    asked: dict[str, Any] = {"name": "t", "scopes": [], "tenants": [], "expires_in_days": 1}
    bearer = {"Authorization": f"Bearer {accounts.create_token(actor=actor, now=timezone.now(), **asked)[1]}"}
    assert viewed.get("/api/v1/me", headers=bearer).json()["username"] == cast.petra.username
    made = {"slug": "made", "name": "Made", "spec": {"cluster": cast.vision.cluster.slug}}
    answer = viewed.post("/api/v1/departments", made, content_type="application/json", headers=bearer)
    assert answer.status_code in (201, 202), answer.content


def test_end_leads_back_to_the_person_as_oneself(cast: Cast, viewed: Client) -> None:
    answer = viewed.post("/view-as/end/")
    assert (answer.status_code, answer["Location"]) == (
        303,
        f"/console/users/{cast.rosa.username}/sessions/",
    )
    page = text(viewed.get(answer["Location"]))
    assert BANNER not in page
    assert REASON in page
    assert Viewing.objects.get().how == ViewEnd.ENDED
    assert REASON in text(client_of(cast.rosa).get("/me/sign-in/"))


def test_signing_out_signs_the_engineer_out_and_ends_it(cast: Cast, viewed: Client) -> None:
    assert viewed.post("/sign-out/").status_code == 303
    assert Viewing.objects.get().how == ViewEnd.SIGNED_OUT
    assert AuditEvent.objects.get(action="session.sign-out").actor == cast.petra.username
    assert viewed.get("/").status_code == 302


def test_after_its_time_nothing_is_done_until_a_page_has_said_so(cast: Cast, viewed: Client) -> None:
    view = over(viewed)
    assert viewed.post("/notices/").status_code == 403
    assert viewed.get("/", headers=header_of(viewed)).status_code == 403
    assert viewed.get("/api/v1/me").status_code == 401
    answer = viewed.get("/t/vision/", headers=HTML)
    assert (answer.status_code, answer["Location"]) == (
        302,
        f"/console/users/{cast.rosa.username}/sessions/",
    )
    assert "no longer see the portal as" in text(viewed.get(answer["Location"]))
    assert viewed.get("/console/").status_code == 200
    view.refresh_from_db()
    assert view.how == ViewEnd.TIME
    assert Notice.objects.get(user=cast.rosa).message.endswith(REASON)


def test_who_loses_the_role_is_themselves_with_what_is_left(cast: Cast, viewed: Client) -> None:
    User.objects.filter(pk=cast.petra.pk).update(platform_role="")
    assert viewed.get("/", headers=HTML)["Location"] == "/"
    assert BANNER not in text(viewed.get("/"))
    assert viewed.get("/t/vision/").status_code == 404
    assert Viewing.objects.get().how == ViewEnd.VIEWER


def test_a_person_who_is_disabled_is_viewed_no_longer(cast: Cast, viewed: Client) -> None:
    User.objects.filter(pk=cast.rosa.pk).update(is_active=False)
    assert viewed.get("/t/vision/", headers=HTML).status_code == 302
    assert Viewing.objects.get().how == ViewEnd.PERSON


def test_a_disabled_engineer_is_signed_out_and_sees_nothing(cast: Cast, viewed: Client) -> None:
    User.objects.filter(pk=cast.petra.pk).update(is_active=False)
    assert BANNER not in text(viewed.get("/", headers=HTML, follow=True))
    assert viewed.get("/api/v1/me").status_code == 401
    assert Viewing.objects.get().ended_at is not None


def test_a_view_is_of_the_session_that_began_it(cast: Cast, viewed: Client) -> None:
    other = client_of(cast.petra)
    session = other.session
    session["viewing"] = viewed.session["viewing"]
    session.save()
    assert other.get("/", headers=HTML).status_code == 302
    assert BANNER not in text(other.get("/"))
    assert BANNER in text(viewed.get("/"))


def test_a_part_is_served_only_to_a_page_of_the_same_view(cast: Cast, viewed: Client) -> None:
    part, own = "/?part=mine", header_of(viewed)
    assert viewed.get(part, headers=own).status_code == 200
    assert viewed.get(part, headers={"HX-Request": "true"}).status_code == 403
    viewed.post("/view-as/end/")
    assert viewed.get(part, headers=own).status_code == 403
    assert viewed.get(part, headers={"HX-Request": "true"}).status_code == 200


def test_a_form_of_before_is_worth_nothing_after_begin_and_after_end(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.petra)

    def token(path: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text(client.get(path)))
        assert found
        return found[1]

    asked = f"/console/users/{cast.rosa.username}/view-as/"
    before = token(asked)
    assert client.post(asked, {"reason": REASON, "csrfmiddlewaretoken": before}).status_code == 303
    meanwhile = token("/")
    assert client.post("/view-as/end/", {"csrfmiddlewaretoken": before}).status_code == 403
    assert client.post("/view-as/end/", {"csrfmiddlewaretoken": meanwhile}).status_code == 303
    assert client.post("/notices/", {"csrfmiddlewaretoken": meanwhile}).status_code == 403
    assert client.post("/notices/", {"csrfmiddlewaretoken": token("/")}).status_code == 303


def test_the_buttons_are_where_one_may_view(cast: Cast) -> None:
    def button(user: User, path: str, of: User) -> bool:
        return f"/console/users/{of.username}/view-as/" in text(client_of(user).get(path))

    page = "/console/users/{}/sessions/"
    assert button(cast.petra, page.format(cast.rosa.username), cast.rosa)
    assert button(cast.petra, "/t/vision/members/", cast.rosa)
    assert not button(cast.petra, page.format(cast.petra.username), cast.petra)
    assert not button(cast.ann, page.format(cast.rosa.username), cast.rosa)
    assert not button(cast.leon, "/t/vision/members/", cast.rosa)
