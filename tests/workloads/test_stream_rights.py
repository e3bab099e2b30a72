"""Every stream that is served ends with the right it was opened with. The streams are found, not listed."""

import ast
import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.sessions.models import Session
from django.test import AsyncClient
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.models import ApiToken, User, Viewing
from apps.tenants.live.services import stream_guard
from apps.tenants.models import DepartmentManager, Membership, Tenant
from apps.tenants.specs import Role
from apps.workloads.models import Workload
from tests.accounts.views import looking
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.house.reading import ROOT, sources
from tests.matrix.routes import served
from tests.sample import every
from tests.web.broker import broker, redis_server
from tests.workloads.pod_log import PodLogs, with_pod

__all__ = ["broker", "redis_server"]
pytestmark = pytest.mark.django_db(transaction=True)

MEASURED = os.environ.get("STREAM_ENDS_WITHIN")
WITHIN = float(MEASURED or "60")
"""Seconds. The promise is 1, held by `make verify SUITE=streams`: in the gate others use the machine too."""

HOW = {
    "/live/": "?on=tenant:vision&on=workload:{workload}",
    "/api/v1/workloads/<str:pk>/logs": "?follow=true",
    "/api/v1/events": "?tenant=vision",
}
"""How each is opened; a stream that is not named here fails."""
TAKES_TOKENS = [route for route in HOW if route.startswith("/api/")]


STREAMING = {"StreamingHttpResponse", "FileResponse", "StreamingResponse", "EventSourceResponse"}
"""Django's, and those of Starlette, which the door is made with."""


def test_a_streaming_answer_is_made_in_one_place() -> None:
    makers = {path for path, node in nodes("Response") if name_of(node) in STREAMING}
    assert {str(path.relative_to(ROOT)) for path in makers} == {"apps/web/streams/streaming.py"}


def name_of(node: ast.AST) -> str:
    """What it names, imported by itself or reached through its module."""
    return str(next((getattr(node, part) for part in ("name", "attr", "id") if hasattr(node, part)), ""))


def test_every_stream_that_is_served_is_tried_here() -> None:
    views = {route: getattr(view, "cls", view) for route, view in served().items()}
    names = {route: (view.__module__, view.__qualname__) for route, view in views.items()}
    makers = openers()
    streams = {route for route, name in names.items() if name in makers}
    assert makers <= set(names.values()), "an answer that streams is made where no address leads to"
    assert streams == set(HOW)


def openers() -> set[tuple[str, str]]:
    """Module and top-level name of everything that calls `streaming.answer`."""
    found = set()
    for path, top in nodes("streaming.answer", deep=False):
        if any(isinstance(n, ast.Call) and ast.unparse(n.func) == "streaming.answer" for n in ast.walk(top)):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.add((module, getattr(top, "name", "")))
    return found


def nodes(text: str, *, deep: bool = True) -> Iterator[tuple[Path, ast.AST]]:
    """The syntax of every source that holds this text."""
    for path in sources():
        source = path.read_text()
        if text in source:
            tree = ast.parse(source)
            yield from ((path, node) for node in (ast.walk(tree) if deep else tree.body))


@dataclass
class Way:
    """A credential of somebody: a client that has it, and the row of it."""

    client: AsyncClient
    headers: dict[str, str] = field(default_factory=dict)
    token: ApiToken | None = None
    session: str = ""


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured looks as often as the product does; everything else would wait for nothing."""
    if not MEASURED:
        monkeypatch.setattr(stream_guard, "LOOK_SECONDS", 0.1)


@pytest.fixture
def logs() -> Iterator[PodLogs]:
    with PodLogs() as server:
        yield server


@pytest.fixture
def workload(cast: Cast, logs: PodLogs, tmp_path: Path) -> Workload:
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    (tmp_path / "kubeconfig").write_text(logs.kubeconfig)
    with_pod(row, str(tmp_path / "kubeconfig"))
    return row


def of_token(user: User) -> Way:
    token, text = accounts.create_token(
        actor=as_actor(user), name="t", scopes=[], tenants=[], expires_in_days=1, now=timezone.now()
    )
    return Way(AsyncClient(), {"Authorization": f"Bearer {text}"}, token=token)


def of_session(user: User) -> Way:
    client = AsyncClient()
    client.force_login(user)
    (cookie,) = client.cookies.values()
    return Way(client, session=cookie.value)


def of_view(viewer: User, person: User) -> Way:
    known = looking(viewer, person)
    client = AsyncClient()
    client.cookies = known.cookies
    return Way(client, session=str(known.session.session_key))


def disable(cast: Cast, _way: Way) -> None:
    User.objects.filter(pk=cast.rosa.pk).update(is_active=False)


def end_membership(cast: Cast, _way: Way) -> None:
    Membership.objects.filter(user=cast.rosa).delete()


def change_role(cast: Cast, _way: Way) -> None:
    Membership.objects.filter(user=cast.rosa).update(role=Role.LEAD)


def delete_tenant(cast: Cast, _way: Way) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(deleted_at=timezone.now())


def revoke(_cast: Cast, way: Way) -> None:
    assert way.token is not None
    ApiToken.objects.filter(pk=way.token.pk).update(revoked_at=timezone.now())


def expire(_cast: Cast, way: Way) -> None:
    assert way.token is not None
    ApiToken.objects.filter(pk=way.token.pk).update(expires_at=timezone.now())


def sign_out(_cast: Cast, way: Way) -> None:
    Session.objects.filter(session_key=way.session).delete()


def reset_password(cast: Cast, _way: Way) -> None:
    cast.rosa.set_unusable_password()
    cast.rosa.save()


Act = Callable[[Cast, Way], None]
OF_ALL: list[Act] = [disable, end_membership, change_role, delete_tenant]
OF_TOKENS: list[Act] = [revoke, expire]
OF_SESSIONS: list[Act] = [sign_out, reset_password]


@asynccontextmanager
async def opened(route: str, workload: Workload, way: Way) -> AsyncIterator[AsyncIterator[bytes]]:
    """The stream, once it has said something."""
    address = route.replace("<str:pk>", str(workload.pk)) + HOW[route].format(workload=workload.pk)
    answer: Any = await way.client.get(address, headers=way.headers)
    assert answer.status_code == 200, answer.content
    stream = aiter(answer)
    try:
        assert await asyncio.wait_for(anext(stream), 20)
        yield stream
    finally:
        await stream.aclose()


async def drained(stream: AsyncIterator[bytes]) -> None:
    async for _ in stream:
        pass


async def seconds_to_end(route: str, workload: Workload, way: Way, act: Callable[[], None]) -> float:
    """Asserts that the stream goes on until `act` and ends within WITHIN of it; else raises TimeoutError."""
    async with opened(route, workload, way) as stream:
        end = asyncio.ensure_future(drained(stream))
        # Two looks: it does not end by itself.
        await asyncio.sleep(2.5 * stream_guard.LOOK_SECONDS)
        assert not end.done()
        began = time.monotonic()
        await sync_to_async(act)()
        await asyncio.wait_for(end, WITHIN)
        return time.monotonic() - began


@pytest.mark.parametrize("route", HOW)
@pytest.mark.parametrize("act", every(3, [*OF_ALL, *OF_SESSIONS]))
def test_a_stream_of_a_session_ends_with_its_right_though_nobody_tells(
    route: str, act: Act, broker: str, cast: Cast, workload: Workload, record_property: Callable[..., None]
) -> None:
    way = of_session(cast.rosa)
    took = async_to_sync(seconds_to_end)(route, workload, way, lambda: act(cast, way))
    record_property("seconds", round(took, 2))


@pytest.mark.parametrize("route", TAKES_TOKENS)
@pytest.mark.parametrize("act", every(3, [*OF_ALL, *OF_TOKENS], 1))
def test_a_stream_of_a_token_ends_with_its_right_though_nobody_tells(
    route: str, act: Act, broker: str, cast: Cast, workload: Workload, record_property: Callable[..., None]
) -> None:
    way = of_token(cast.rosa)
    took = async_to_sync(seconds_to_end)(route, workload, way, lambda: act(cast, way))
    record_property("seconds", round(took, 2))


@pytest.mark.parametrize("route", HOW)
def test_a_department_that_somebody_no_longer_manages_is_no_longer_heard(
    route: str, broker: str, cast: Cast, workload: Workload
) -> None:
    made = DepartmentManager.objects.create(department=cast.vision.department, user=cast.otto)
    async_to_sync(seconds_to_end)(route, workload, of_session(cast.otto), lambda: made.delete() and None)


@pytest.mark.parametrize("route", HOW)
def test_a_platform_role_that_is_taken_away_ends_its_streams(
    route: str, broker: str, cast: Cast, workload: Workload
) -> None:
    def demote() -> None:
        User.objects.filter(pk=cast.petra.pk).update(platform_role="")

    async_to_sync(seconds_to_end)(route, workload, of_session(cast.petra), demote)


def view_ends(cast: Cast, _way: Way) -> None:
    Viewing.objects.filter(person=cast.rosa).update(ends_at=timezone.now())


def viewer_demoted(cast: Cast, _way: Way) -> None:
    User.objects.filter(pk=cast.petra.pk).update(platform_role="")


@pytest.mark.parametrize("route", HOW)
@pytest.mark.parametrize("act", every(3, [view_ends, viewer_demoted, disable, end_membership, sign_out]))
def test_a_stream_of_a_view_ends_with_the_view_and_with_the_persons_right(
    route: str, act: Act, broker: str, cast: Cast, workload: Workload
) -> None:
    way = of_view(cast.petra, cast.rosa)
    async_to_sync(seconds_to_end)(route, workload, way, lambda: act(cast, way))


def test_a_view_hears_of_nothing_that_the_person_does_not(
    broker: str, cast: Cast, workload: Workload
) -> None:
    way = of_view(cast.petra, cast.rosa)
    for topic, status in (("tenant:genomics", 404), ("console:", 404), (f"user:{cast.petra.pk}", 404)):
        assert async_to_sync(way.client.get)(f"/live/?on={topic}").status_code == status


def test_what_happens_to_others_and_to_other_tokens_leaves_a_stream_alone(
    broker: str, cast: Cast, workload: Workload
) -> None:
    mine, other = of_token(cast.rosa), of_token(cast.rosa)

    def act() -> None:
        revoke(cast, other)
        Membership.objects.filter(user=cast.leon).delete()
        Membership.objects.create(user=cast.rosa, tenant=cast.genomics, role=Role.MEMBER)

    with pytest.raises(TimeoutError):
        async_to_sync(_ends_within)(3 * stream_guard.LOOK_SECONDS, workload, mine, act)


async def _ends_within(seconds: float, workload: Workload, way: Way, act: Callable[[], None]) -> None:
    async with opened("/api/v1/workloads/<str:pk>/logs", workload, way) as stream:
        await sync_to_async(act)()
        await asyncio.wait_for(drained(stream), seconds)


def test_where_nobody_can_be_asked_a_stream_ends(
    broker: str, cast: Cast, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    def away() -> None:
        def fail(_: object) -> None:
            raise OperationalError("the database is away")

        monkeypatch.setattr(stream_guard, "standings", fail)

    async_to_sync(_ends_within)(WITHIN, workload, of_token(cast.rosa), away)


def test_the_place_at_the_cluster_is_given_back_when_the_reader_goes(
    cast: Cast, workload: Workload, logs: PodLogs, broker: str
) -> None:
    way = of_token(cast.rosa)

    async def come_and_go() -> None:
        async with opened("/api/v1/workloads/<str:pk>/logs", workload, way):
            assert len(logs.followers) == 1
        for _ in range(500):
            if not logs.followers:
                return
            await asyncio.sleep(0.02)

    async_to_sync(come_and_go)()
    assert not logs.followers
