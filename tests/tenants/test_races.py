"""Two people at once: one database decides."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import people
from apps.accounts.models import User
from apps.errors import AlreadyExists, Conflict, DomainError, NotAllowed
from apps.notices.models import Notice
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Grant, Quota, TenantQueue
from apps.quotas.requests.services import deciding
from apps.quotas.requests.services.deciding import RequestWish
from apps.quotas.specs import RequestKind
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import DepartmentManager, MemberInvitation, Tenant
from apps.tenants.people.services import inviting
from apps.tenants.people.services.inviting import Invited
from apps.tenants.specs import Role, TrustLevel
from tests import factories
from tests.conftest import as_actor
from tests.factories import NOW
from tests.tenants.invitees import ALLOWED, KIM, approve, configured, invite, role_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


@pytest.fixture
def petra() -> User:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets one writer in at a time: there is no race to lose")
    return factories.make_user("platform", platform_role="platform")


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Every act in a thread and a connection of its own; a refusal is its answer."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return act()
        except DomainError as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_one_slug_goes_to_one_of_many(petra: User) -> None:
    department = factories.make_department(factories.make_cluster(), "research")

    def make() -> Tenant:
        return tenancy.create_tenant(
            actor=as_actor(petra),
            slug="vision",
            name="",
            department=department,
            trust_level=TrustLevel.STANDARD,
            now=NOW,
        )

    answers = at_once(*[make] * 6)
    assert sum(isinstance(answer, Tenant) for answer in answers) == 1
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 5


def test_every_change_of_quota_counts(petra: User) -> None:
    cluster = factories.make_cluster()
    tenant = factories.make_tenant(factories.make_department(cluster, "research"), "vision")
    offer = factories.make_offer(factories.make_flavor(cluster))

    def change(nominal: int) -> Callable[[], Quota]:
        return lambda: quotas.set_quota(
            actor=as_actor(petra), tenant=tenant, offer=offer, amounts=Amounts(nominal), now=NOW
        )

    at_once(*(change(nominal) for nominal in range(1, 9)))
    assert Quota.objects.get(tenant=tenant).generation == 8
    assert TenantQueue.objects.get(tenant=tenant).generation == 9


def test_of_two_requests_approved_at_once_both_are_given(petra: User) -> None:
    tenant = factories.make_tenant(factories.make_department(factories.make_cluster(), "research"), "vision")
    offer = factories.make_offer(factories.make_flavor(tenant.cluster))
    factories.join(tenant, lead := factories.make_user("leon"), Role.LEAD)
    Quota.objects.create(tenant=tenant, offer=offer, nominal_quota=4, borrowing_limit=0)
    deciders = (petra, factories.make_user("paul", platform_role="platform"))

    def approving(decider: User, count: int) -> Callable[[], object]:
        wish = RequestWish(RequestKind.GUARANTEED, count, "a paper")
        row = deciding.ask(actor=as_actor(lead), tenant=tenant, offer=offer, wish=wish, now=NOW)
        actor = as_actor(decider)
        return lambda: deciding.approve(actor=actor, request=row, count=None, reason="", now=NOW)

    at_once(*(approving(decider, count) for decider, count in zip(deciders, (2, 3), strict=True)))
    assert Quota.objects.get(tenant=tenant).nominal_quota == 4 + 2 + 3


def test_two_grants_at_once_give_no_more_than_there_is(petra: User, monkeypatch: pytest.MonkeyPatch) -> None:
    department = factories.make_department(factories.make_cluster(), "research")
    offer = factories.make_offer(factories.make_flavor(department.cluster))
    DepartmentManager.objects.create(department=department, user=(mona := factories.make_user("mona")))
    monkeypatch.setattr(stock, "capacity_of", lambda _: 4)
    wish = GrantWish(3, NOW + timedelta(days=1))

    def giving(slug: str) -> Callable[[], object]:
        tenant, actor = factories.make_tenant(department, slug), as_actor(mona)
        return lambda: granting.give_grant(actor=actor, tenant=tenant, offer=offer, wish=wish, now=NOW)

    answers = at_once(*(giving(slug) for slug in ("vision", "speech")))
    assert sum(isinstance(answer, NotAllowed) for answer in answers) == 1
    assert Grant.objects.count() == 1


def test_one_address_invited_by_many_at_once_is_one_account(petra: User, settings: Settings) -> None:
    """Two leads of a team, one of another, and an engineer who calls the person otherwise."""
    configured(settings, invited_domains=ALLOWED)
    department = factories.make_department(factories.make_cluster(), "research")
    vision, speech = (factories.make_tenant(department, slug) for slug in ("vision", "speech"))
    leads = [factories.make_user(name) for name in ("leon", "lena", "luis")]
    for lead, tenant in zip(leads, (vision, vision, speech), strict=True):
        factories.join(tenant, lead, Role.LEAD)
    wish = people.PersonWish("someone", "", KIM)
    answers = at_once(
        lambda: invite(leads[0], vision),
        lambda: invite(leads[1], vision),
        lambda: invite(leads[2], speech),
        lambda: people.invite(actor=as_actor(petra), wish=wish, now=timezone.now()),
    )
    assert User.objects.filter(email=KIM).count() == 1
    by_lead = [each for each in answers if isinstance(each, Invited)]
    assert len(by_lead) == 3
    by_engineer = [each for each in answers if isinstance(each, tuple)]
    assert len([each for each in by_lead if each.link]) + len(by_engineer) == 1, "one link"
    assert [role_of(KIM, tenant) for tenant in (vision, speech)] == ["member", "member"]


def test_of_several_decisions_at_once_one_counts(petra: User) -> None:
    tenant = factories.make_tenant(factories.make_department(factories.make_cluster(), "research"), "vision")
    factories.join(tenant, lead := factories.make_user("leon"), Role.LEAD)
    row, now = invite(lead, tenant).row, timezone.now()

    def decline() -> MemberInvitation:
        return inviting.decline(actor=as_actor(petra), invitation=row, reason="no", now=now)

    answers = at_once(lambda: approve(petra, row), decline, lambda: approve(petra, row))
    assert sum(isinstance(each, Conflict) for each in answers) == 2
    is_member = role_of(KIM, tenant) == "member"
    assert MemberInvitation.objects.get().status == ("joined" if is_member else "declined")
    assert User.objects.filter(email=KIM).exists() is is_member


def test_an_address_asked_for_twice_at_once_waits_once(petra: User) -> None:
    tenant = factories.make_tenant(factories.make_department(factories.make_cluster(), "research"), "vision")
    leads = [factories.make_user(name) for name in ("leon", "lena")]
    for lead in leads:
        factories.join(tenant, lead, Role.LEAD)
    at_once(*(partial(invite, lead, tenant) for lead in leads))
    assert MemberInvitation.objects.get().status == "open"
    assert Notice.objects.filter(user=petra).count() == 1
