"""A person, that person's token, and clients that use them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import services
from apps.accounts.models import User
from apps.accounts.oidc import wire
from apps.accounts.specs import Actor
from tests.accounts.provider import FakeProvider, configured, serving
from tests.conftest import as_actor
from tests.factories import make_user
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["broker", "no_broker", "redis_server"]

PASSWORD = "a long enough password"
MakeToken = Callable[..., str]


@pytest.fixture
def ada(db: None) -> User:
    return make_user("ada", password=PASSWORD)


@pytest.fixture
def actor(ada: User) -> Actor:
    return as_actor(ada)


@pytest.fixture
def make_token(actor: Actor) -> MakeToken:
    """The text of a new token of Ada's; any argument of the service may be given."""

    def make(**given: Any) -> str:
        asked = {
            "name": "test",
            "scopes": [],
            "tenants": [],
            "expires_in_days": 1,
            "now": timezone.now(),
            **given,
        }
        return services.create_token(actor=actor, **asked)[1]

    return make


@pytest.fixture
def bearer(make_token: MakeToken) -> Callable[..., Client]:
    """A client that sends a new token with these arguments."""
    return lambda **given: Client(headers={"Authorization": f"Bearer {make_token(**given)}"})


@pytest.fixture
def acme(settings: Settings) -> Iterator[FakeProvider]:
    """The one provider that the settings name."""
    wire.forget()
    with serving() as provider:
        configured(settings, provider.settings())
        yield provider
