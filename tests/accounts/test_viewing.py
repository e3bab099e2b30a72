"""Who may see the portal as whom, for how long, what is recorded of it, and what the person hears."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import User, Viewing
from apps.accounts.specs import PlatformRole, ViewEnd
from apps.accounts.viewing import selectors, services
from apps.audit.models import AuditEvent
from apps.errors import Conflict, DomainError, Invalid, NotAllowed
from apps.notices.models import Notice
from tests.accounts.views import REASON
from tests.conftest import as_actor, client_of
from tests.factories import make_user
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["broker", "no_broker", "redis_server"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


@pytest.fixture
def petra(db: None) -> User:
    return having(make_user("petra", platform_role=PlatformRole.PLATFORM), display_name="Petra Lind")


@pytest.fixture
def rosa(db: None) -> User:
    return having(make_user("rosa"), display_name="Rosa Ek")


def having(user: User, **values: object) -> User:
    User.objects.filter(pk=user.pk).update(**values)
    user.refresh_from_db()
    return user


def begun(viewer: User, person: User, now: datetime, reason: str = REASON) -> Viewing:
    key = client_of(viewer).session.session_key
    assert key
    return services.begin(actor=as_actor(viewer), person=person, session_key=key, reason=reason, now=now)


def refusal(viewer: User, person: User) -> type[DomainError]:
    with pytest.raises(DomainError) as caught:
        begun(viewer, person, timezone.now())
    assert not Viewing.objects.exists()
    return type(caught.value)


@pytest.mark.parametrize("role", ["", PlatformRole.AUDITOR])
def test_only_platform_engineers_view(rosa: User, role: str) -> None:
    assert refusal(make_user("ann", platform_role=role), rosa) is NotAllowed


def test_a_token_views_nobody(petra: User, rosa: User) -> None:
    actor = replace(as_actor(petra), token_prefix="alt_12345678")
    with pytest.raises(NotAllowed, match="signed in"):
        services.begin(actor=actor, person=rosa, session_key="k", reason=REASON, now=timezone.now())


def test_nobody_is_viewed_who_could_do_as_much_or_sees_no_page(petra: User) -> None:
    assert refusal(petra, make_user("pia", platform_role=PlatformRole.PLATFORM)) is NotAllowed
    assert refusal(petra, petra) is NotAllowed
    assert refusal(petra, having(make_user("robot"), is_service=True)) is NotAllowed
    assert refusal(petra, having(make_user("gone"), is_active=False)) is Conflict


@pytest.mark.parametrize("reason", ["", " \n ", "x" * 201])
def test_a_reason_is_needed_and_short(petra: User, rosa: User, reason: str) -> None:
    with pytest.raises(Invalid):
        begun(petra, rosa, timezone.now(), reason)


def test_begin_and_end_are_recorded_with_who_whom_why_and_until(petra: User, rosa: User) -> None:
    now = timezone.now()
    view = begun(petra, rosa, now, "her page\nsays X")
    services.end(view, how=ViewEnd.ENDED, now=now + timedelta(minutes=9))
    began, ended = AuditEvent.objects.filter(action__startswith="user.view-as").order_by("sequence")
    assert {(each.actor, each.target_name, each.reason) for each in (began, ended)} == {
        ("petra", "rosa", "her page says X")
    }
    assert datetime.fromisoformat(began.changes["until"][1]) == now + timedelta(minutes=30)
    assert datetime.fromisoformat(ended.changes["until"][1]) == now + timedelta(minutes=9)
    assert ended.changes["how"] == [None, ViewEnd.ENDED.label]


def test_the_person_hears_of_it_once_with_who_when_and_why(petra: User, rosa: User) -> None:
    now = datetime(2026, 11, 29, 14, 22, tzinfo=timezone.get_default_timezone())
    view = begun(petra, rosa, now)
    assert not Notice.objects.exists()
    assert services.end(view, how=ViewEnd.ENDED, now=now + timedelta(minutes=9))
    assert not services.end(view, how=ViewEnd.TIME, now=now + timedelta(minutes=30))
    (told,) = Notice.objects.all()
    words = f"Petra Lind (platform engineer) looked at the portal as you, 14:22 to 14:31 UTC: {REASON}"
    assert (told.user, told.message) == (rosa, words)
    assert AuditEvent.objects.filter(action="user.view-as-end").count() == 1


def no_engineer(view: Viewing) -> None:
    User.objects.filter(pk=view.viewer_id).update(platform_role=PlatformRole.AUDITOR)


def viewer_disabled(view: Viewing) -> None:
    User.objects.filter(pk=view.viewer_id).update(is_active=False)


def person_disabled(view: Viewing) -> None:
    User.objects.filter(pk=view.person_id).update(is_active=False)


def person_raised(view: Viewing) -> None:
    User.objects.filter(pk=view.person_id).update(platform_role=PlatformRole.PLATFORM)


def session_gone(view: Viewing) -> None:
    Session.objects.filter(session_key=view.session_key).delete()


@pytest.mark.parametrize(
    ("act", "how"),
    [
        (no_engineer, ViewEnd.VIEWER),
        (viewer_disabled, ViewEnd.VIEWER),
        (person_disabled, ViewEnd.PERSON),
        (person_raised, ViewEnd.PERSON),
        (session_gone, ViewEnd.SESSION),
    ],
)
def test_what_could_not_begin_is_ended_by_the_clock(
    petra: User, rosa: User, act: Callable[[Viewing], None], how: ViewEnd
) -> None:
    now = timezone.now()
    view = begun(petra, rosa, now)
    assert services.end_lapsed(now) == 0
    act(view)
    assert services.end_lapsed(now) == 1
    view.refresh_from_db()
    assert view.how == how
    assert Notice.objects.filter(user=rosa).count() == 1


def test_time_ends_it_at_its_own_minute_however_late_the_clock_comes(
    petra: User, rosa: User, settings: Settings
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"view_as_minutes": 5})
    now = timezone.now()
    view = begun(petra, rosa, now)
    assert services.end_lapsed(now + timedelta(minutes=4)) == 0
    assert services.end_lapsed(now + timedelta(minutes=20)) == 1
    view.refresh_from_db()
    assert (view.ended_at, view.how) == (now + timedelta(minutes=5), ViewEnd.TIME)


def test_who_looked_is_seen_by_the_person_and_by_who_sees_people(petra: User, rosa: User) -> None:
    view = begun(petra, rosa, timezone.now())
    for reader in (rosa, petra):
        assert list(selectors.views_of(as_actor(reader), rosa)) == [view]
    with pytest.raises(NotAllowed):
        selectors.views_of(as_actor(make_user("otto")), rosa)
