"""Two people at once: one database decides."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection, connections

from apps.accounts.models import User
from apps.errors import AlreadyExists
from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Quota, TenantQueue
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from tests import factories
from tests.conftest import as_actor
from tests.factories import NOW

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
        except AlreadyExists as refusal:
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
