"""What a provider says of somebody's e-mail, and what that opens."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import User
from apps.tenants.people.services import inviting
from apps.tenants.specs import Role
from tests.accounts.provider import FakeProvider, come, configured
from tests.conftest import Cast, as_actor

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker"), pytest.mark.both_databases]


def test_a_mail_that_the_provider_doubts_is_not_kept(acme: FakeProvider) -> None:
    come(acme, sub="s-1", preferred_username="ada", email="ada@acme.example", email_verified=False)
    come(acme, sub="s-2", preferred_username="bob", email="bob@acme.example", email_verified=True)
    assert dict(User.objects.values_list("username", "email")) == {"ada": "", "bob": "bob@acme.example"}


@pytest.mark.parametrize(("verified", "tenants"), [(True, ["vision"]), (False, []), (None, []), ("true", [])])
def test_an_invited_mail_joins_if_the_provider_has_verified_it(
    verified: Any, tenants: list[str], acme: FakeProvider, cast: Cast, settings: Settings
) -> None:
    closed = {"password_sign_in": "break-glass", "break_glass_user": "keeper"}
    configured(settings, acme.settings(), invited_domains="acme.example", **closed)
    inviting.invite(
        actor=as_actor(cast.leon), tenant=cast.vision, email="ada@acme.example", role=Role.MEMBER,
        now=timezone.now(),
    )  # fmt: skip
    client = Client()
    come(acme, client, preferred_username="ada", email="Ada@acme.example", email_verified=verified, groups=[])
    assert list(client.get("/api/v1/me").json()["tenants"]) == tenants
