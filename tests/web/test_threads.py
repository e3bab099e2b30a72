"""A request has a thread to itself, and the next one gets the same thread."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import connections
from django.http import HttpRequest, HttpResponse

from portal import asgi, protocol
from tests.patience import patient, within

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}


def handler(view: Callable[[], None]) -> tuple[asgi.Handler, list[threading.Thread]]:
    """One whose chain is `view`, and the threads in which it ran."""
    ran: list[threading.Thread] = []

    def chain(_: HttpRequest) -> HttpResponse:
        ran.append(threading.current_thread())
        view()
        return HttpResponse("done")

    made = asgi.Handler()
    made._middleware_chain = sync_to_async(chain, thread_sensitive=True)
    return made, ran


async def ask(application: Any) -> int:
    asked: Any = ApplicationCommunicator(application, dict(SCOPE))  # type: ignore[no-untyped-call]
    await asked.send_input({"type": "http.request", "body": b"", "more_body": False})
    status: int = (await asked.receive_output())["status"]
    await asked.receive_output()
    await asked.wait()
    return status


async def ask_together(application: Any, count: int) -> list[int]:
    return await asyncio.gather(*(ask(application) for _ in range(count)))


def test_one_after_the_other_shares_a_thread() -> None:
    application, ran = handler(lambda: None)

    for _ in range(20):
        assert asyncio.run(ask(application)) == 200
        while not application._idle:  # it says that it is free just after the answer
            time.sleep(0.001)
    assert (len(ran), len(set(ran))) == (20, 1)


def test_together_each_has_its_own() -> None:
    meet = threading.Barrier(5, timeout=patient(10))
    application, ran = handler(meet.wait)  # type: ignore[arg-type]
    assert asyncio.run(ask_together(application, 5)) == [200] * 5
    assert len(set(ran)) == 5


def test_after_a_burst_only_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "KEPT_THREADS", 2)
    meet = threading.Barrier(6, timeout=patient(10))
    application, ran = handler(meet.wait)  # type: ignore[arg-type]
    asyncio.run(ask_together(application, 6))
    deadline = within(10)
    while sum(thread.is_alive() for thread in set(ran)) > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sum(thread.is_alive() for thread in set(ran)) == len(application._idle) == 2


def test_after_a_burst_few_threads_keep_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[threading.Thread] = []
    monkeypatch.setattr(asgi, "KEPT_CONNECTIONS", 2)
    monkeypatch.setattr(connections, "close_all", lambda: closed.append(threading.current_thread()))
    meet = threading.Barrier(6, timeout=patient(10))
    application, ran = handler(meet.wait)  # type: ignore[arg-type]
    asyncio.run(ask_together(application, 6))
    deadline = within(10)
    while len(application._idle) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(set(closed)) == 4
    assert set(closed) < set(ran)


def test_a_connection_outlives_its_request() -> None:
    """To open one costs SQLite more than a small answer."""
    settings = connections["default"].settings_dict
    assert settings["CONN_MAX_AGE"] or settings["OPTIONS"].get("pool")


def test_a_server_at_rest_looks_seldom_whether_it_shall_end(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        server.should_exit = len(slept) == 3

    server = uvicorn.Server(uvicorn.Config("portal.asgi:application", http=protocol.Protocol))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(server.main_loop())
    assert slept == [protocol.LOOK_SECONDS] * 3
    assert dict(server.server_state.default_headers)[b"date"]


def test_web_processes_are_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    assert uvicorn.Config("portal.asgi:application").workers == 3
