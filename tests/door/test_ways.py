"""When a way is left for another, and what a client's own doing makes of it: a door in this process, before a
real server, in the cluster and through an API server's forward.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpcore
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from apps.accounts import tokens
from apps.cluster.gateway import following, forwarding
from apps.cluster.models import MirrorObject
from apps.workloads.kinds import service
from apps.workloads.models import Workload
from apps.workloads.opening.rules.hosts import Domain
from apps.workloads.opening.services import reaching, service_tokens
from apps.workloads.opening.services.reaching import Upstream
from apps.workloads.specs import Phase
from portal.door import asking, passing, ways
from portal.door.app import DoorApp
from tests.conftest import Cast, as_actor
from tests.door.forward import TOKEN, Endless, Forwarding
from tests.factories import NOW
from tests.patience import patient
from tests.ports import free_port
from tests.workloads.asking import submit

TEXT = tokens.generate(b"x" * tokens.RANDOM_BYTES).text
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UPLOAD = [(b"content-length", b"10")]
GOES = {"type": "http.disconnect"}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Upstream]:
    """Every way that was asked for; none is too young to be lost, and no use is noted."""
    monkeypatch.setattr(ways, "_noted", lambda *_: None)
    monkeypatch.setattr(ways, "LOST_SECONDS", 0.0)
    return []


class Caller:
    """A program before a door of its own."""

    def __init__(self, running: ways.Ways) -> None:
        self.workload, self.running = uuid4(), running
        self.door = DoorApp(Domain("http", "localhost:1"), "http://portal.test", running)

    async def __call__(
        self, method: str = "GET", *, more: Any = (), says: Any = None
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body of the answer; 0 where there is none."""
        said, told = iter([says] if says else []), list[Any]()
        known = [
            (b"host", f"{self.workload}.localhost:1".encode()),
            (b"authorization", f"Bearer {TEXT}".encode()),
        ]

        async def receive() -> Any:
            if (message := next(said, None)) is None:
                await asyncio.Event().wait()
            return message

        async def send(message: Any) -> None:
            told.append(message)

        scope = {"type": "http", "method": method, "path": "/", "raw_path": b"/", "query_string": b"",
                 "headers": [*known, *more]}  # fmt: skip
        await asyncio.wait_for(self.door(scope, receive, send), patient(20))
        if not told:
            return 0, {}, b""
        headers = {key.decode().lower(): text.decode() for key, text in told[0]["headers"]}
        return told[0]["status"], headers, b"".join(each.get("body", b"") for each in told)


@asynccontextmanager
async def calling(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], port: int, *, way: forwarding.Way | None = None
) -> AsyncIterator[Caller]:
    to = Upstream("127.0.0.1", port, "", way)

    def asked(*_: object) -> tuple[Endless, Upstream]:
        opened.append(to)
        return Endless(), to

    monkeypatch.setattr(ways, "_asked", asked)
    async with ways.Ways() as running:
        yield Caller(running)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """The port of a server whose connections are served so."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each request of a connection."""
    while await reader.readuntil(b"\r\n\r\n"):
        writer.write(OK)


@pytest.fixture
def forward() -> Iterator[Callable[[int], forwarding.Way]]:
    """The way through an API server to a pod at this port."""
    pods = dict[str, int]()
    with Forwarding(pods) as cluster:

        def to(port: int) -> forwarding.Way:
            pods["llm"] = port
            url = f"http://127.0.0.1:{cluster.port}/api/v1/namespaces/n/pods/llm-1/portforward?ports=8888"
            door = following.Door({"Authorization": f"Bearer {TOKEN}"}, ssl.create_default_context())
            return forwarding.Way(url, door)

        yield to


def test_a_pod_that_does_not_answer_is_left_once_and_its_way_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    async def ask() -> None:
        async with calling(monkeypatch, opened, 8888, way=forward(free_port())) as call:
            assert (await call("POST"))[0] == 502
            (watched,) = call.running._watching
            await asyncio.wait_for(asyncio.shield(watched), patient(5))
            monkeypatch.setattr(ways, "LOST_SECONDS", 3600.0)
            for _ in range(3):
                assert (await call("POST"))[0] == 502
            assert len(opened) == 2
            assert len(call.running._watching) == 1

    asyncio.run(ask())


def test_what_only_asks_is_asked_of_another_pod_and_nobody_is_sent_to_the_first_meanwhile(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    left_out = list[set[str]]()
    monkeypatch.setattr(ways, "LOST_SECONDS", 3600.0)

    async def ask() -> list[int]:
        async with serving(answers) as port, calling(monkeypatch, opened, 8888) as call:

            def asked(_known: object, _workload: UUID, left: Collection[str]) -> tuple[Endless, Upstream]:
                left_out.append(set(left))
                to = ("b", port) if "a" in left else ("a", free_port())
                return Endless(), Upstream("llm", 8888, "", forward(to[1]), to[0])

            monkeypatch.setattr(ways, "_asked", asked)
            done = [(await call())[0]]
            call.running._known.clear()
            return [*done, (await call("POST"))[0]]

    assert asyncio.run(ask()) == [200, 200]
    assert left_out == [set(), {"a"}, {"a"}]


def test_what_came_with_a_body_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    body = {"type": "http.request", "body": b"0123456789"}

    async def ask() -> None:
        async with calling(monkeypatch, opened, 8888, way=forward(free_port())) as call:
            assert (await call("GET", more=UPLOAD, says=body))[0] == 502

    asyncio.run(ask())
    assert len(opened) == 1


def test_what_runs_through_a_lost_way_goes_on_to_its_end(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    async def ask() -> None:
        came, go_on = asyncio.Event(), asyncio.Event()

        async def first_alone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            if not came.is_set():
                came.set()
                await go_on.wait()
                writer.write(OK)

        async with (
            serving(first_alone) as port,
            calling(monkeypatch, opened, 8888, way=forward(port)) as call,
        ):
            first = asyncio.ensure_future(call())
            await asyncio.wait_for(came.wait(), patient(5))
            (watched,) = call.running._watching
            assert [(await call("POST"))[0] for _ in range(2)] == [502] * 2
            assert len(opened) == 2
            assert not watched.done()
            go_on.set()
            assert (await first)[0] == 200
            await asyncio.wait_for(asyncio.shield(watched), patient(5))

    asyncio.run(ask())


def test_in_the_cluster_there_is_no_other_way(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream]
) -> None:
    async def ask() -> None:
        async with calling(monkeypatch, opened, free_port()) as call:
            assert [(await call())[0] for _ in range(3)] == [502] * 3

    asyncio.run(ask())
    assert len(opened) == 1


def test_an_upload_that_its_client_breaks_off_is_not_the_pods_fault(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    async def ask() -> None:
        async with serving(answers) as port, calling(monkeypatch, opened, 8888, way=forward(port)) as call:
            for _ in range(3):
                assert (await call("POST", more=UPLOAD, says=GOES))[0] == 0
            assert (await call())[0] == 200

    asyncio.run(ask())
    assert len(opened) == 1


def test_one_request_too_many_at_once_is_told_so_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream], forward: Callable[[int], forwarding.Way]
) -> None:
    monkeypatch.setattr(ways, "MOST_CONNECTIONS", 1)
    monkeypatch.setitem(passing.TIMES["timeout"], "pool", 0.01)

    async def ask() -> tuple[int, dict[str, str], Any]:
        came, go_on = asyncio.Event(), asyncio.Event()

        async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            came.set()
            await go_on.wait()
            writer.write(OK)

        async with serving(waits) as port, calling(monkeypatch, opened, 8888, way=forward(port)) as call:
            first = asyncio.ensure_future(call())
            await asyncio.wait_for(came.wait(), patient(5))
            refused = await call()
            go_on.set()
            assert (await first)[0] == 200
            return refused

    status, headers, body = asyncio.run(ask())
    assert (status, headers["retry-after"], json.loads(body)["code"]) == (503, "1", "too_many_at_once")
    assert "run at once" in json.loads(body)["error"]["message"]
    assert len(opened) == 1


def test_what_only_asks_is_asked_once_more_where_a_kept_connection_was_closed(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream]
) -> None:
    heard = list[str]()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request of each connection, and hears one more."""
        for answer in (OK, b""):
            heard.append((await reader.readuntil(b"\r\n\r\n")).split()[0].decode())
            writer.write(answer)

    async def ask(*methods: str) -> list[int]:
        async with serving(once) as port, calling(monkeypatch, opened, port) as call:
            return [(await call(method))[0] for method in methods]

    assert asyncio.run(ask("GET", "GET", "POST", "POST")) == [200, 200, 502, 200]
    assert heard == ["GET", "GET", "GET", "POST", "POST"]


def test_a_connect_that_fails_is_tried_again_and_none_is_kept_for_as_long_as_a_replica_goes(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream]
) -> None:
    real, tried = httpcore.AnyIOBackend.connect_tcp, list[int]()

    async def connect(self: Any, host: str, port: int, **how: Any) -> Any:
        tried.append(port)
        if len(tried) == 1:
            raise httpcore.ConnectError("refused")
        return await real(self, host, port, **how)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)

    async def ask() -> int:
        async with serving(answers) as port, calling(monkeypatch, opened, port) as call:
            return (await call())[0]

    assert asyncio.run(ask()) == 200
    assert len(tried) == 2
    assert service.LEAVES > ways.SERVICE_KEPT


def test_of_several_pods_one_is_taken_that_is_ready_and_was_not_left(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = submit(cast, kind="service", image="vllm:1", volumes=[])
    for name, is_ready in (("a", "True"), ("b", "True"), ("c", "False")):
        MirrorObject.objects.create(
            cluster=row.cluster, kind="Pod", namespace=row.tenant.object_name, name=name, uid=name,
            owner_kind="workload", owner_id=str(row.pk),
            body={"status": {"conditions": [{"type": "Ready", "status": is_ready}]}},
        )  # fmt: skip
    monkeypatch.setattr(reaching, "open_gateway", lambda _: SimpleNamespace(port_forward=lambda *_: None))

    def chosen(*left: str) -> set[str]:
        return {reaching.upstream(row, without=left).pod for _ in range(40)}

    assert [chosen(), chosen("a"), chosen("a", "b")] == [{"a", "b"}, {"b"}, {"a", "b"}]


def test_the_guard_only_reads_and_a_use_is_noted_once_a_minute_beside_it(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = submit(cast, kind="service", image="vllm:1", volumes=[])
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=NOW)
    made = service_tokens.make_token(actor=as_actor(cast.rosa), workload=row, name="ci", now=NOW)
    monkeypatch.setattr(ways, "upstream", lambda *_, **__: None)

    def writes(work: Callable[[], object]) -> int:
        with CaptureQueriesContext(connection) as told:
            work()
        return sum(not each["sql"].startswith("SELECT") for each in told.captured_queries)

    assert writes(lambda: ways._asked(ways.Known(made.text, is_program=True), row.pk)) == 0
    assert [writes(lambda: ways._noted(made.text, row.pk)) for _ in range(3)] == [1, 0, 0]
    made.token.refresh_from_db()
    assert made.token.last_used_at


def test_what_cannot_be_noted_hinders_no_later_note() -> None:
    def locked(*_: object) -> None:
        raise OperationalError("database is locked")

    asking.note(locked)
    noted = list[int]()
    asking.note(noted.append, 1)
    asking._NOTES.submit(lambda: None).result(patient(5))
    assert noted == [1]


def test_a_use_is_noted_at_the_opening_and_by_no_request_after_it(
    monkeypatch: pytest.MonkeyPatch, opened: list[Upstream]
) -> None:
    noted = list[UUID]()
    monkeypatch.setattr(ways, "_noted", lambda _, workload: noted.append(workload))

    async def ask() -> UUID:
        async with serving(answers) as port, calling(monkeypatch, opened, port) as call:
            for _ in range(3):
                assert (await call())[0] == 200
            asking._NOTES.submit(lambda: None).result(patient(5))
            return call.workload

    assert [asyncio.run(ask())] == noted
