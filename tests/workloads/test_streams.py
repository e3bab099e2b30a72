"""REST's streams: what changes is heard by those who may see it."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import AsyncClient
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.models import User
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.workloads.lifecycle.services import verbs
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.web.broker import broker, redis_server

__all__ = ["broker", "redis_server"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


async def heard(
    user: User,
    query: str,
    act: Callable[[], Any],
    *,
    cut: Mapping[str, list[str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """What a stream tells a token with this cut within a second of something being done."""
    asked = {"scopes": [], "tenants": [], **(cut or {})}
    _, token = await sync_to_async(accounts.create_token)(
        actor=as_actor(user), name="t", **asked, expires_in_days=1, now=timezone.now()
    )
    sent = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", **(headers or {})}
    answer: Any = await AsyncClient().get(f"/api/v1/events{query}", headers=sent)
    assert answer["Content-Type"] == "text/event-stream"
    stream = aiter(answer.streaming_content)
    chunks = [await anext(stream)]
    while b"beat" not in chunks[-1]:
        chunks.append(await anext(stream))
    await sync_to_async(act)()
    try:
        chunks.append(await asyncio.wait_for(anext(stream), 1))
    except TimeoutError:
        chunks.append(b"nothing")
    return b"".join(chunks).decode()


@pytest.fixture
def stop(cast: Cast) -> Callable[[], Any]:
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    return lambda: verbs.stop_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=timezone.now())


def test_a_member_hears_that_a_workload_changed(broker: str, cast: Cast, stop: Callable[[], Any]) -> None:
    said = async_to_sync(heard)(cast.leon, "?tenant=vision", stop)
    assert said.count("event: workload.updated") == 1
    assert '"phase":"Stopping"' in said
    assert '"tenant":"vision"' in said


def test_strangers_and_other_types_hear_nothing(broker: str, cast: Cast, stop: Callable[[], Any]) -> None:
    assert "workload.updated" not in async_to_sync(heard)(cast.otto, "?tenant=vision", stop)


def test_only_the_asked_types_are_told(broker: str, cast: Cast, stop: Callable[[], Any]) -> None:
    assert "workload.updated" not in async_to_sync(heard)(cast.leon, "?type=quota.updated", stop)


def test_one_who_was_away_is_told_to_list_again(broker: str, cast: Cast, stop: Callable[[], Any]) -> None:
    said = async_to_sync(heard)(cast.leon, "", stop, headers={"Last-Event-ID": "7"})
    assert said.startswith("retry: 3000\n\nevent: reset\n")


@pytest.mark.parametrize(
    ("cut", "is_told"),
    [
        ({}, True),
        ({"scopes": ["workloads:read"]}, False),
        ({"scopes": ["workloads:read", "notifications:read"]}, True),
        ({"tenants": ["vision"]}, False),
    ],
)
def test_a_message_is_told_to_no_credential_that_may_not_read_it(
    *, broker: str, cast: Cast, cut: Mapping[str, list[str]], is_told: bool
) -> None:
    def tell() -> None:
        notices.tell([cast.leon.pk], kind=Kind.QUOTA_ASKED, message="Asked.", url="/", at=timezone.now())

    said = async_to_sync(partial(heard, cut=cut))(cast.leon, "", tell)
    assert ("event: notification.created" in said) is is_told
