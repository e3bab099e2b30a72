"""200 who follow a log at one web process, over HTTP: all are served at once, and the process serves others.

The gate asserts what no clock decides; `make verify SUITE=streams` also how soon the first byte came.
"""

import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.utils import timezone

from apps.accounts import services as accounts
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.house.reading import ROOT
from tests.patience import patient
from tests.ports import free_port
from tests.web.broker import broker, redis_server
from tests.workloads.pod_log import PodLogs, until, with_pod

__all__ = ["broker", "redis_server"]
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.both_databases,
]

FOLLOWERS, OF_SILENT = 200, 40
FIRST_BYTE_MS = float(os.environ.get("FOLLOWERS_FIRST_BYTE_MS", "inf"))
Record = Callable[[str, object], None]


@dataclass
class Web:
    """One web process, and a token of a member who follows one workload's log there."""

    url: str
    token: str
    path: str
    logs: PodLogs
    followers: int

    def client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=FOLLOWERS + 10)
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, limits=limits, timeout=60)


@pytest.fixture(params=[FOLLOWERS, OF_SILENT], ids=["first line at once", "silent container"])
def web(request: pytest.FixtureRequest, broker: str, cast: Cast, tmp_path: Path) -> Iterator[Web]:
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    _, token = accounts.create_token(
        actor=as_actor(cast.rosa), name="t", scopes=[], tenants=[], expires_in_days=1, now=timezone.now()
    )
    with PodLogs(silent=request.param == OF_SILENT) as logs:
        (tmp_path / "kubeconfig").write_text(logs.kubeconfig)
        with_pod(row, str(tmp_path / "kubeconfig"))
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(port), "--lifespan",
             "off", "--log-level", "warning", "--timeout-graceful-shutdown", "1"],
            cwd=ROOT,
            env={
                **os.environ,
                **database(tmp_path),
                "ALLOTMENT_REDIS_URL": broker,
                "ALLOTMENT_STREAMS_PER_PERSON": str(request.param),
            },
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: answers(url), "the web process", 60)
            yield Web(url, token, f"/api/v1/workloads/{row.pk}/logs?follow=true", logs, request.param)
        finally:
            process.terminate()
            process.wait(20)


def database(home: Path) -> dict[str, str]:
    """The rows of this test for another process: of SQLite a copy, because it may be in memory."""
    if connection.vendor == "sqlite":
        with sqlite3.connect(home / "allotment.sqlite3") as copy:
            connection.ensure_connection()
            connection.connection.backup(copy)
        copy.close()
        return {"ALLOTMENT_HOME": str(home)}
    base, _, _ = os.environ["ALLOTMENT_DATABASE_URL"].rpartition("/")
    return {"ALLOTMENT_DATABASE_URL": f"{base}/{connection.settings_dict['NAME']}"}


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v1/health/live").is_success
    except httpx.HTTPError:
        return False


async def next_line(lines: AsyncIterator[str]) -> list[str]:
    """The next event that is a line of the log: no beat, no end."""
    event: list[str] = []
    async for line in lines:
        if line:
            event.append(line)
        elif event and not event[0].startswith("event:"):
            return event
        else:
            event = []
    return []


async def followed(web: Web) -> list[float]:
    """Each opens when the one before has its first line (of a silent container: is at the cluster); the
    milliseconds that took, all staying open. Then a line is written to all.
    """
    took = []
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(web.client())
        every = []
        for number in range(web.followers):
            began = time.monotonic()
            answer = await opened.enter_async_context(client.stream("GET", web.path))
            assert answer.status_code == 200, await answer.aread()
            lines = answer.aiter_lines()
            if not web.logs.silent:
                assert await asyncio.wait_for(next_line(lines), 60) == ["data: first"]
            took.append((time.monotonic() - began) * 1000)
            every.append(lines)
            assert number < len(web.logs.followers) + 10
        await asyncio.to_thread(until, lambda: len(web.logs.followers) == web.followers, "all to be there")
        assert (await client.get("/api/v1/me")).status_code == 200
        refused = await client.get(web.path)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        if not web.logs.silent:
            await asyncio.to_thread(web.logs.write, b"more\revent: forged\n")
            heard = await asyncio.wait_for(asyncio.gather(*map(next_line, every)), 60)
            assert heard == [["data: more", "data: event: forged"]] * web.followers
    return took


def test_200_follow_at_one_process_and_leave_nothing_behind(web: Web, record_property: Record) -> None:
    took = async_to_sync(followed)(web)
    until(lambda: not web.logs.followers, "their places at the cluster to be given back")
    record_property("first_byte_ms_median", round(statistics.median(took)))
    record_property("first_byte_ms_p99", round(statistics.quantiles(took, n=100)[-1]))
    assert statistics.quantiles(took, n=100)[-1] <= patient(FIRST_BYTE_MS)
