"""Four eyes are two people's: not those of accounts that one person made, renewed or keeps tokens of."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.second_person import ESTABLISHED, hands
from apps.accounts.services import TokenWish
from apps.accounts.specs import Actor, PlatformRole
from apps.audit.models import AuditEvent
from apps.errors import NotAllowed
from apps.tenants.lifecycle.services import deletion
from apps.tenants.models import ServiceAccount
from apps.tenants.people.services import group_rights, group_rules, service_accounts
from apps.tenants.people.services.group_rules import RuleWish
from apps.tenants.people.services.service_accounts import AccountWish
from tests.accounts.second_factors import give_app
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def invited(by: Actor, username: str, now: datetime = NOW) -> Actor:
    """A new platform engineer."""
    wish = people.PersonWish(username, platform_role=PlatformRole.PLATFORM)
    return as_actor(people.invite(actor=by, wish=wish, now=now)[0])


def renewed(by: Actor, username: str, now: datetime = NOW) -> Actor:
    """An engineer of long standing with a new link."""
    user = make_user(username, platform_role=PlatformRole.PLATFORM)
    people.reset_password(actor=by, user=user, now=now)
    return as_actor(user)


def without_factor(by: Actor, username: str, now: datetime = NOW) -> Actor:
    """An engineer of long standing whose second factor was reset."""
    user = make_user(username, platform_role=PlatformRole.PLATFORM, password="a long enough password")
    give_app(user)
    assert factors.reset(actor=by, user=user, now=now)
    return as_actor(user)


def robot(by: Actor, slug: str = "robot", now: datetime = NOW) -> Actor:
    """A service account of the platform with a token."""
    wish = AccountWish(None, slug, "", PlatformRole.PLATFORM)
    account = service_accounts.create_account(actor=by, wish=wish, now=now)
    token = TokenWish("t", [], [], now + timedelta(days=1))
    service_accounts.create_token(actor=by, account=account, wish=token, now=now)
    return as_actor(account.user)


def refusal(cast: Cast, asks: Actor, approves: Actor, now: datetime = NOW) -> NotAllowed | None:
    """What the second of them is told who approves the deletion that the first asked for."""
    deletion.ask_deletion(actor=asks, tenant=cast.speech, now=now)
    try:
        deletion.approve_deletion(actor=approves, tenant=cast.speech, now=now)
    except NotAllowed as error:
        return error
    return None


@pytest.mark.parametrize("made", [invited, renewed, without_factor])
@pytest.mark.parametrize("asks_first", ["maker", "made"])
def test_who_was_invited_or_renewed_by_the_asker_is_no_second_person_for_30_days(
    cast: Cast, made: Callable[..., Actor], asks_first: str
) -> None:
    petra = as_actor(cast.petra)
    paul = made(petra, "paul")
    asks, approves = (paul, petra) if asks_first == "made" else (petra, paul)
    told = refusal(cast, asks, approves, NOW + ESTABLISHED - timedelta(seconds=1))
    assert told is not None
    assert told.code == "own_request"
    assert "platform may have acted as both of you" in told.detail
    assert refusal(cast, asks, approves, NOW + ESTABLISHED + timedelta(seconds=1)) is None


def test_neither_are_two_that_one_person_invited_nor_one_invited_by_an_invited(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    paul = invited(petra, "paul")
    pia, quinn = invited(petra, "pia"), invited(paul, "quinn")
    assert refusal(cast, paul, pia) is not None
    assert refusal(cast, petra, quinn) is not None


@pytest.mark.parametrize("then", ["kept", "ended"])
def test_a_service_account_asks_with_the_hand_of_who_made_its_token(cast: Cast, then: str) -> None:
    petra, old = as_actor(cast.petra), NOW - timedelta(days=300)
    asks = robot(petra, now=old)
    deletion.ask_deletion(actor=asks, tenant=cast.speech, now=NOW)
    if then == "ended":
        account = ServiceAccount.objects.get(user=asks.user_id)
        service_accounts.delete_account(actor=petra, account=account, now=NOW)
    with pytest.raises(NotAllowed) as refused:
        deletion.approve_deletion(actor=petra, tenant=cast.speech, now=NOW)
    assert refused.value.code == "own_request"
    paul = as_actor(make_user("paul", platform_role=PlatformRole.PLATFORM))
    assert hands(asks.username, NOW) == {asks.username, petra.username}
    assert deletion.approve_deletion(actor=paul, tenant=cast.speech, now=NOW).deletion_due_at is not None


def test_no_service_account_approves_and_the_hint_names_who_can(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    told = refusal(cast, petra, robot(as_actor(make_user("paul", platform_role=PlatformRole.PLATFORM))))
    assert told is not None
    assert "only people approve" in told.detail
    own = refusal(cast, petra, petra)
    assert own is not None
    assert (own.code, own.hint) == ("own_request", "Another platform engineer can: paul.")
    User.objects.filter(username="paul").update(is_active=False)
    alone = refusal(cast, petra, petra)
    assert alone is not None
    assert "Nobody can yet" in alone.hint


def test_the_record_of_an_approval_names_both(cast: Cast) -> None:
    paul = as_actor(make_user("paul", platform_role=PlatformRole.PLATFORM))
    assert refusal(cast, as_actor(cast.petra), paul) is None
    kept: Any = AuditEvent.objects.get(action="tenant.approve-deletion")
    assert kept.actor == "paul"
    assert kept.changes["deletion_asked_by"] == ["platform", "platform"]
    assert kept.changes["deletion_approved_by"] == [None, "paul"]


def by_rule(by: Actor, username: str, now: datetime = NOW) -> Actor:
    """An engineer by a rule on groups: whoever writes it has accounts at the provider too."""
    wish = RuleWish("acme", "ops", "platform", "", PlatformRole.PLATFORM)
    group_rules.make_rule(actor=by, wish=wish, now=now)
    user = make_user(username)
    group_rights.apply(user, provider="acme", groups=("ops",), now=now)
    user.refresh_from_db()
    return as_actor(user)


def test_whom_a_fresh_rule_made_an_engineer_is_no_second_person_to_who_wrote_it(
    cast: Cast, settings: Settings
) -> None:
    said = [{"slug": "acme", "name": "Acme", "issuer": "https://acme.example", "client_id": "x"}]
    settings.CONFIG = django_settings.CONFIG.model_copy(update={"oidc": json.dumps(said)})
    petra = as_actor(cast.petra)
    nina = by_rule(petra, "nina")
    assert refusal(cast, petra, nina) is not None
    assert "platform" in hands("nina", NOW)
    assert "platform" not in hands("nina", NOW + ESTABLISHED + timedelta(days=1))
    assert hands(make_user("pia", platform_role=PlatformRole.PLATFORM).username, NOW) == {"pia"}
