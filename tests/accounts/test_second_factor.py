"""The second factor of a local account: set up, asked for, used up, lost and reset."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import people, sign_in
from apps.accounts.models import Authenticator, PersonSession, RecoveryCode, User
from apps.accounts.second_factor import codes, factors
from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from apps.errors import Conflict
from apps.notices.models import Notice
from tests.accounts.conftest import PASSWORD
from tests.accounts.second_factors import (
    SET_UP_PAGE,
    STEP_PAGE,
    code_for,
    enter,
    give_app,
    moved_by,
    opens,
    recovery_in,
    secret_in,
)
from tests.conftest import as_actor, client_of
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
TOLD = "sign-in.second-factor"


def petra() -> User:
    return make_user("petra", password=PASSWORD, platform_role=PlatformRole.PLATFORM)


def halfway(username: str = "ada", **more: str) -> Client:
    """A browser in which the password was right."""
    client = Client()
    answer = enter(client, username, **more)
    assert (answer.status_code, answer["Location"]) == (303, STEP_PAGE)
    return client


def test_an_app_is_set_up_with_its_first_code_and_recovery_codes_are_shown_once(ada: User) -> None:
    client, other = Client(), Client()
    for each in (client, other):
        enter(each)
    page = client.post("/me/sign-in/app/").content.decode()
    secret = secret_in(page)
    assert '<svg aria-hidden="true" viewBox=' in page
    assert "otpauth://totp/Allotment%20127.0.0.1%3A8000:ada?secret=" in page
    assert not factors.is_set(ada), "before its first code it is asked for nowhere"
    typed = {"code": code_for(secret), "password": PASSWORD}
    for wrong in ({"code": "000000"}, {"password": "no"}, {"code": ""}):
        answer = client.post("/me/sign-in/app/", typed | wrong)
        assert (answer.status_code, secret_in(answer.content.decode())) == (422, secret)
    done = client.post("/me/sign-in/app/", typed)
    made = recovery_in(done.content.decode())
    assert len(set(made)) == 10
    assert 'download="allotment-recovery-codes.txt"' in done.content.decode()
    assert (opens(client), opens(other)) == (True, False), "the other browser is signed out"
    shown = client.get("/me/sign-in/").content.decode()
    assert "10 of 10 recovery codes left" in shown
    assert not any(code in shown for code in made)
    assert AuditEvent.objects.get(action="user.set-second-factor").changes == {"second_factor": [None, "app"]}
    assert Notice.objects.get(kind=TOLD).user == ada


def test_the_secret_that_waits_belongs_to_the_session_that_began_it(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers, other = client_of(ada), client_of(ada)
    secret = secret_in(hers.post("/me/sign-in/app/").content.decode())
    typed = {"code": code_for(secret), "password": PASSWORD}
    seen = other.post("/me/sign-in/app/", typed)
    assert (seen.status_code, 'id="secret"' in seen.content.decode()) == (409, False)
    theirs = secret_in(other.post("/me/sign-in/app/").content.decode())
    assert hers.post("/me/sign-in/app/", typed | {"code": code_for(theirs)}).status_code == 422
    assert hers.post("/me/sign-in/app/", typed).status_code == 200
    assert hers.post("/me/sign-in/app/", typed).status_code == 409, "it is used up"
    late = {**typed, "code": code_for(secret_in(hers.post("/me/sign-in/app/").content.decode()))}
    moved_by(monkeypatch, factors.PENDING_LIFE)
    assert hers.post("/me/sign-in/app/", late).status_code == 409


def test_who_is_late_with_a_first_app_finds_another_ones_in_force(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, session, now = petra(), Client().session, timezone.now()
    secret = factors.begin_app(session, user, now=now)
    give_app(user)
    with pytest.raises(Conflict, match="meanwhile"):
        factors.confirm_app(
            actor=as_actor(user), user=user, code=code_for(secret), session=session, now=now, is_first=True
        )


def test_the_right_password_alone_opens_nothing_and_says_where_to_go_on(ada: User) -> None:
    secret, _ = give_app(ada)
    client = halfway(next="/me/tokens/")
    assert PersonSession.objects.count() == 0
    doors = ("/", "/me/tokens/", "/me/sign-in/", "/live/?on=user:1", "/notices/")
    assert {client.get(path).status_code for path in doors} == {302}
    assert not opens(client)
    assert client.post("/me/sign-in/app/").status_code == 302
    assert client.post("/me/tokens/", {"name": "n", "days": 1, "reach_workloads": "read"}).status_code == 302
    answer = client.post(STEP_PAGE, {"code": code_for(secret)})
    assert (answer.status_code, answer["Location"]) == (303, "/me/tokens/")
    assert opens(client)
    assert PersonSession.objects.get().way == "password+app"
    assert "password and app" in client.get("/me/sign-in/").content.decode()


def test_a_wrong_password_says_nothing_of_a_second_factor(ada: User) -> None:
    def told(username: str) -> tuple[int, str]:
        answer = Client().post("/sign-in/", {"username": username, "password": "wrong"})
        words = answer.content.decode().partition('class="error-summary"')[2].partition("</div>")[0]
        return answer.status_code, words

    before = told("ada")
    give_app(ada)
    assert before == told("ada") == told("nobody")


def test_a_code_opens_once(ada: User) -> None:
    secret, _ = give_app(ada)
    code = code_for(secret)
    assert halfway().post(STEP_PAGE, {"code": code}).status_code == 303
    again = halfway()
    refused = again.post(STEP_PAGE, {"code": code})
    assert refused.status_code == 422
    assert factors.WRONG_CODE in refused.content.decode()
    assert not opens(again)


@pytest.mark.both_databases
def test_two_at_once_with_one_code_are_one(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, (first, *_) = give_app(ada)
    code, read = code_for(secret), factors._in_force(ada)
    # Both read the row before either writes.
    monkeypatch.setattr(factors, "_in_force", lambda _: read)
    assert [factors.accepts(ada, code, now=timezone.now()) for _ in range(2)] == [True, False]
    assert [factors.accepts_recovery(ada, first, now=timezone.now()) for _ in range(2)] == [True, False]


def test_a_recovery_code_opens_once_and_its_owner_is_told(ada: User) -> None:
    _, made = give_app(ada)
    other = make_user("eve", password=PASSWORD)
    _, theirs = give_app(other)
    client = halfway()
    assert client.post(STEP_PAGE, {"recovery": theirs[0]}).status_code == 422
    assert client.post(STEP_PAGE, {"recovery": made[3].upper().replace("-", " ")}).status_code == 303
    assert opens(client)
    assert PersonSession.objects.get().way == "password+recovery code"
    assert "9 are left" in Notice.objects.filter(user=ada).latest("created_at").message
    assert halfway().post(STEP_PAGE, {"recovery": made[3]}).status_code == 422


def password_changed(ada: User, _patch: pytest.MonkeyPatch) -> None:
    ada.set_password("another long enough one")
    ada.save()


def closed(ada: User, _patch: pytest.MonkeyPatch) -> None:
    User.objects.filter(pk=ada.pk).update(is_active=False)


def five_minutes_later(_ada: User, patch: pytest.MonkeyPatch) -> None:
    moved_by(patch, sign_in.STEP_LIFE)


@pytest.mark.parametrize("change", [password_changed, closed, five_minutes_later])
def test_half_a_sign_in_ends(
    change: Callable[[User, pytest.MonkeyPatch], None], ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = give_app(ada)
    client = halfway()
    change(ada, monkeypatch)
    answer = client.post(STEP_PAGE, {"code": code_for(secret)})
    assert (answer.status_code, answer["Location"]) == (303, "/sign-in/")
    assert "begin again" in client.get("/sign-in/").content.decode()
    assert not opens(client)


@pytest.mark.both_databases
def test_wrong_codes_are_counted_for_the_account_and_its_owner_hears_of_the_fifth(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Redis, which counts nothing here, and however many browsers of hers somebody has."""
    secret, made = give_app(ada)
    Notice.objects.all().delete()
    assert factors.accepts(ada, code_for(secret), now=timezone.now()), "a right one counts as none"
    told, client = [], halfway()
    for _ in range(factors.MOST_WRONG):
        assert client.post(STEP_PAGE, {"code": "000000"}).status_code == 422
        told.append(Notice.objects.filter(kind=TOLD).count())
    assert told == [0] * 4 + [1] * 16
    event = AuditEvent.objects.get(action="user.wrong-codes")
    assert (event.actor, event.changes) == ("system:sign-in", {"wrong_codes": [None, 5]})
    right = {"code": code_for(secret, ahead=1)}
    for browser, page in ((halfway(), STEP_PAGE), (client_of(ada), "/me/sign-in/app/remove/")):
        refused = browser.post(page, right)
        assert (refused.status_code, "Use a recovery code" in refused.content.decode()) == (429, True)
    assert factors.is_set(ada)
    # What nobody guesses goes on, and so do codes in the next hour.
    assert halfway().post(STEP_PAGE, {"recovery": made[0]}).status_code == 303
    moved_by(monkeypatch, factors.WRONG_LIFE)
    assert halfway().post(STEP_PAGE, {"code": code_for(secret)}).status_code == 303


@pytest.mark.parametrize("proof", [{"password": PASSWORD}, "code", "recovery"])
def test_the_app_is_removed_by_who_shows_that_it_is_theirs(proof: Any, ada: User) -> None:
    secret, made = give_app(ada)
    client = client_of(ada)
    given = {"code": code_for(secret)}, {"code": made[0]}
    shown = proof if isinstance(proof, dict) else given[proof == "recovery"]
    page = "/me/sign-in/app/remove/"
    assert client.get(page).status_code == 200
    assert [client.post(page, wrong).status_code for wrong in ({}, {"password": "no"}, {"code": "1"})] == [
        422
    ] * 3
    assert factors.is_set(ada)
    assert client.post(page, shown).status_code == 303
    assert (factors.is_set(ada), RecoveryCode.objects.count()) == (False, 0)
    assert enter(Client())["Location"] == "/"
    change = AuditEvent.objects.get(action="user.remove-second-factor").changes
    assert change == {"second_factor": ["app", None]}


def test_new_recovery_codes_end_the_old(ada: User) -> None:
    _, old = give_app(ada)
    client = client_of(ada)
    made = recovery_in(client.post("/me/sign-in/recovery-codes/", {"password": PASSWORD}).content.decode())
    assert (len(made), set(made) & set(old)) == (10, set())
    assert halfway().post(STEP_PAGE, {"recovery": old[0]}).status_code == 422
    assert halfway().post(STEP_PAGE, {"recovery": made[0]}).status_code == 303
    assert AuditEvent.objects.filter(action="user.new-recovery-codes").count() == 1


def test_another_phone_takes_the_place_of_the_first_and_the_codes_stay(ada: User) -> None:
    old, made = give_app(ada)
    client = client_of(ada)
    new = secret_in(client.post("/me/sign-in/app/").content.decode())
    assert halfway().post(STEP_PAGE, {"code": code_for(old)}).status_code == 303, "until the new one is seen"
    answer = client.post("/me/sign-in/app/", {"code": code_for(new), "password": PASSWORD})
    assert answer["Location"] == "/me/sign-in/"
    assert halfway().post(STEP_PAGE, {"code": code_for(old, ahead=1)}).status_code == 422
    assert halfway().post(STEP_PAGE, {"code": code_for(new, ahead=1)}).status_code == 303
    assert halfway().post(STEP_PAGE, {"recovery": made[0]}).status_code == 303


def test_an_engineer_who_must_have_one_can_do_nothing_else_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = petra()
    monkeypatch.setattr(settings.CONFIG, "second_factor", "engineers")
    client = halfway("petra", next="/console/users/")
    assert client.get(STEP_PAGE)["Location"] == SET_UP_PAGE
    assert "Platform engineers need one here" in client.get(SET_UP_PAGE).content.decode()
    assert not opens(client)
    secret = secret_in(client.post(SET_UP_PAGE).content.decode())
    assert client.post(SET_UP_PAGE, {"code": "1"}).status_code == 422
    assert not opens(client)
    done = client.post(SET_UP_PAGE, {"code": code_for(secret)}).content.decode()
    assert len(recovery_in(done)) == 10
    assert 'href="/console/users/"' in done
    assert opens(client)
    # It cannot be taken away again, and nobody else is asked for one.
    for password in (PASSWORD, "wrong"):
        assert client.post("/me/sign-in/app/remove/", {"password": password}).status_code == 409
    assert client.get("/me/sign-in/app/remove/").status_code == 409, "before anything is asked"
    assert factors.is_set(user)
    make_user("rosa", password=PASSWORD)
    assert enter(Client(), "rosa")["Location"] == "/"


def test_who_has_one_is_never_shown_a_new_secret_before_the_code(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = petra()
    give_app(user)
    monkeypatch.setattr(settings.CONFIG, "second_factor", "engineers")
    client = halfway("petra")
    for answer in (
        client.get(SET_UP_PAGE),
        client.post(SET_UP_PAGE),
        client.post(SET_UP_PAGE, {"code": "1"}),
    ):
        assert (answer.status_code, answer["Location"]) == (303, STEP_PAGE)


def test_an_engineer_resets_it_for_who_has_lost_it(ada: User) -> None:
    engineer = petra()
    give_app(ada)
    client, hers = client_of(engineer), Client()
    hers.force_login(ada)
    sign_in_page = client.get("/console/users/ada/sessions/").content.decode()
    assert "/console/users/ada/reset-second-factor/" in sign_in_page
    assert "call them back" in client.get("/console/users/ada/reset-second-factor/").content.decode()
    assert factors.is_set(ada)
    first = halfway()
    assert enter(Client())["Location"] == STEP_PAGE
    path, kind = "/api/v1/users/ada/reset-second-factor", "application/json"
    answer = client.post(path, content_type=kind)
    assert (answer.status_code, answer.json()["second_factor"]) == (200, False)
    assert client.post(path, content_type=kind).status_code == 200, "again changes nothing"
    assert AuditEvent.objects.filter(action="user.reset-second-factor", actor="petra").count() == 1
    assert "petra reset your second factor" in Notice.objects.filter(user=ada).latest("created_at").message
    assert not opens(first)
    assert enter(Client())["Location"] == "/"


def test_nobody_resets_their_own() -> None:
    user = petra()
    give_app(user)
    client = client_of(user)
    assert (
        client.post("/api/v1/users/petra/reset-second-factor", content_type="application/json").json()["code"]
        == "wrong_phase"
    )
    assert client.post("/console/users/petra/reset-second-factor/").status_code == 409
    assert factors.is_set(user)


def test_a_new_link_leaves_the_second_factor_as_it_is(ada: User) -> None:
    give_app(ada)
    people.reset_password(actor=as_actor(petra()), user=ada, now=timezone.now())
    assert factors.is_set(ada), "who renews a password is not in yet"


def test_who_may_run_the_programs_resets_the_last_account() -> None:
    keeper = make_user("keeper", password=PASSWORD, platform_role=PlatformRole.PLATFORM)
    give_app(keeper)
    told = StringIO()
    for _ in range(2):
        call_command("reset_second_factor", "keeper", stdout=told)
    assert told.getvalue().splitlines() == [
        "keeper signs in with the password alone now. Every session of theirs ended.",
        "keeper has no second factor. Nothing was changed.",
    ]
    assert AuditEvent.objects.get(action="user.reset-second-factor").actor == "system:operator"
    with pytest.raises(CommandError, match="no person ghost"):
        call_command("reset_second_factor", "ghost")


def test_a_changed_secret_key_is_told_and_does_not_let_in(ada: User, settings: Settings) -> None:
    secret, made = give_app(ada)
    settings.SECRET_KEY = "another key"
    client = halfway()
    answer = client.post(STEP_PAGE, {"code": code_for(secret)})
    assert answer.status_code == 409
    assert "reset your second factor" in answer.content.decode()
    assert client.post(STEP_PAGE, {"recovery": made[0]}).status_code == 422
    assert not opens(client)


def test_no_password_no_second_factor(ada: User) -> None:
    ada.set_unusable_password()
    ada.save()
    with pytest.raises(Conflict):
        factors.begin_app(Client().session, ada, now=timezone.now())
    assert "Second factor" not in client_of(ada).get("/me/sign-in/").content.decode()


def test_secrets_stand_in_no_table_record_message_or_page(
    ada: User, caplog: pytest.LogCaptureFixture
) -> None:
    secret, made = give_app(ada)
    client = halfway()
    typed = (code_for(secret), made[0])
    client.post(STEP_PAGE, {"code": "000000"})
    client.post(STEP_PAGE, {"recovery": typed[1]})
    tables = (Authenticator, RecoveryCode, AuditEvent, Notice)
    kept = " ".join(str(row) for table in tables for row in table.objects.values())
    told = [client.get(path).content.decode() for path in ("/me/sign-in/", "/api/v1/me", "/notices/")]
    engineer = client_of(petra())
    told += [engineer.get(path).content.decode() for path in ("/api/v1/users/ada", "/console/audit/")]
    for text in (secret.hex(), codes.typed_secret(secret), typed[0], *made):
        assert text not in kept + caplog.text + " ".join(told)
        assert text.replace("-", "").replace(" ", "") not in kept
