"""What every suite shares: the cast, and the fleet that they share."""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db.models.sql.compiler import SQLCompiler
from django.http import HttpResponse
from django.test import Client

from apps.accounts.models import User
from apps.accounts.specs import Actor, PlatformRole
from apps.cluster.models import Cluster
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.tenants.specs import Role
from apps.web import collector
from apps.web.stores import telling
from tests import factories

pytest_plugins = [
    "tests.database",
    "tests.once",
    "tests.room",
    "tests.own_sql",
    "tests.patience",
    "tests.chromium",
    "tests.described",
    "tests.logs",
    "tests.controlplane.fixtures",
    "tests.node.fixtures",
]

# Suites ask for thousands of refusals: a line for each would bury what a failing test says.
logging.getLogger("django.request").setLevel(logging.ERROR)
# What a real password costs on purpose, a quarter of a second, would be paid a thousand times.
Argon2PasswordHasher.time_cost, Argon2PasswordHasher.memory_cost, Argon2PasswordHasher.parallelism = 1, 8, 1
# The portal's application starts a thread that would tell its counts to the Redis of later tests.
telling._go_on = lambda teller: None  # noqa: ARG005 Its caller names it


@dataclass(frozen=True)
class Cast:
    """Rosa (researcher) and Leon (lead) of vision, Petra (platform), Ann (auditor), Otto of genomics.

    vision and speech share the department research; genomics is alone in bio. vision has 2 of the offer
    guaranteed, speech 2, genomics 1.
    """

    rosa: User
    leon: User
    petra: User
    ann: User
    otto: User
    vision: Tenant
    speech: Tenant
    genomics: Tenant
    offer: Offer


BuiltFromNow = Callable[[], list[str]]


@pytest.fixture
def built_from_now(monkeypatch: pytest.MonkeyPatch) -> BuiltFromNow:
    """Called, it answers a list that grows by the model of each statement that Django builds from then on."""

    def begin() -> list[str]:
        built: list[str] = []
        build = SQLCompiler.as_sql

        def counted(self: SQLCompiler, *args: Any, **kwargs: Any) -> Any:
            built.append(str(self.query.model))
            return build(self, *args, **kwargs)

        monkeypatch.setattr(SQLCompiler, "as_sql", counted)
        return built

    return begin


def as_actor(user: User) -> Actor:
    return Actor(username=user.username, user_id=user.id, platform_role=user.platform_role)


SignedIn = Callable[[User], Client]


def client_of(user: User) -> Client:
    """A browser in which `user` is signed in."""
    client = Client()
    client.force_login(user)
    return client


def generation(answer: HttpResponse) -> int:
    """The part of an ETag that If-Match compares."""
    return int(answer["ETag"].strip('"').partition(".")[0])


def pytest_collection() -> None:
    """Hardly anything that is made meanwhile is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What stands by now stays until the end: the collector of garbage need not look at it again. It looks at
    what comes as seldom as in a web process.
    """
    collector.leave_out_what_stays()
    gc.enable()


@pytest.fixture
def signed_in() -> SignedIn:
    return client_of


@pytest.fixture
def cluster(db: None) -> Cluster:
    return factories.make_cluster()


@pytest.fixture
def cast(cluster: Cluster) -> Cast:
    return make_cast(cluster)


def make_cast(cluster: Cluster) -> Cast:
    """Everybody, and what they have on this cluster."""
    research, bio = (factories.make_department(cluster, slug) for slug in ("research", "bio"))
    vision, speech = (factories.make_tenant(research, slug) for slug in ("vision", "speech"))
    genomics = factories.make_tenant(bio, "genomics")
    rosa, leon, otto = (factories.make_user(name) for name in ("researcher", "lead", "outsider"))
    petra = factories.make_user("platform", platform_role=PlatformRole.PLATFORM)
    ann = factories.make_user("auditor", platform_role=PlatformRole.AUDITOR)
    factories.join(vision, rosa)
    factories.join(vision, leon, Role.LEAD)
    factories.join(genomics, otto)
    offer = factories.make_offer(factories.make_flavor(cluster))
    for tenant, nominal in ((vision, 2), (speech, 2), (genomics, 1)):
        factories.make_quota(tenant, offer, nominal=nominal, borrow=2)
    return Cast(rosa, leon, petra, ann, otto, vision, speech, genomics, offer)
