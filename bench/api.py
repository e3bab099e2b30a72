"""What one web process takes for a request: CPU alone, answers a second for 1 and for 32 at once.

    me, offers?tenant=, workloads (50 rows)  vs  bare DRF views over the same rows (`bare_api`)
    the home page                            alone

Both sides are uvicorn on PostgreSQL and Redis, asked in turn on kept connections. CPU is the server's own,
from /proc: what else the machine does changes the answers a second, and hardly this.
"""

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from bench import processes
from bench.figures import Ratio, milliseconds

Line = dict[str, object]
MANY = 32
SECONDS = 2.0
"""Of one measurement; a process' CPU is counted in hundredths of a second."""
TOKENS = 240
"""Each may ask 600 times a minute, and is written at its first use in one."""
FACTOR = 3
GOALS = {"me": 3, "offers": 10, "workloads": 12, "home": 25}
"""Milliseconds of CPU."""
BARE = "django.core.asgi:get_asgi_application"


@dataclass(frozen=True)
class Asked:
    """A kind of request; `bare`: the same for the reference, which has no pages."""

    name: str
    path: str
    headers: Sequence[Mapping[str, str]]
    bare: str = ""


@dataclass(frozen=True)
class Server:
    """One process that answers on loopback."""

    port: int
    pid: int


@dataclass(frozen=True)
class Taken:
    """What so many answers took."""

    answers: int
    seconds: float
    cpu: float

    @property
    def each(self) -> float:
        """CPU seconds of one."""
        return self.cpu / self.answers

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


def speed(rounds: int) -> Iterator[Line]:
    """A line for each kind of request and round, and one with the medians and goals."""
    from django.utils import timezone

    from tests.web import api_scene

    scene = api_scene.make(timezone.now(), tokens=TOKENS)
    bearers = [{"Authorization": f"Bearer {text}"} for text in scene.tokens]
    offers = f"/api/v1/offers?tenant={scene.tenant.slug}"
    kinds = [
        Asked("me", "/api/v1/me", bearers, "/api/v1/me"),
        Asked("offers", offers, bearers, "/api/v1/offers"),
        Asked("workloads", "/api/v1/workloads", bearers, "/api/v1/workloads"),
        Asked("home", "/", [{"Cookie": scene.session}]),
    ]
    with ExitStack() as stack:
        ours = stack.enter_context(server("portal.asgi:application", "--lifespan", "on"))
        bare = stack.enter_context(
            server(BARE, "--factory", "--lifespan", "off", settings="bench.bare_settings")
        )
        for kind in kinds:
            yield from _measured(kind, ours, bare, rounds)


def _measured(kind: Asked, ours: Server, bare: Server, rounds: int) -> Iterator[Line]:
    one, many, reference, reference_many = list[Taken](), list[Taken](), list[Taken](), list[Taken]()
    ways: list[tuple[list[Taken], Callable[[], Taken]]] = [
        (one, lambda: asked(ours, kind.path, kind.headers, at_once=1)),
        (many, lambda: asked(ours, kind.path, kind.headers, at_once=MANY)),
    ]
    if kind.bare:
        ways += [
            (reference, lambda: asked(bare, kind.bare, kind.headers, at_once=1)),
            (reference_many, lambda: asked(bare, kind.bare, kind.headers, at_once=MANY)),
        ]
    for number in range(rounds + 1):
        for found, way in ways if number % 2 else ways[::-1]:
            taken = way()
            if number:  # the first warms everything up
                found.append(taken)
        if number:
            yield {"round": f"api {kind.name} {number}", **_shown(one[-1:], many[-1:])}
    shown = {**_shown(one, many), "many_to_one": Ratio.of(_rates(many), _rates(one)).shown(), "goal_many": 1}
    line = {
        "what": f"api {kind.name}",
        "statements": statements(kind),
        "goal_cpu_ms": GOALS[kind.name],
        **shown,
    }
    if kind.bare:
        cpu = Ratio.of([t.each for t in one], [t.each for t in reference])
        line |= {f"bare_{k}": v for k, v in _shown(reference, reference_many).items()}
        line |= {"goal": FACTOR, **cpu.shown()}
    yield line


def _shown(one: Sequence[Taken], many: Sequence[Taken]) -> Line:
    return {
        "cpu_ms": milliseconds([t.each for t in one]),
        "cpu_ms_at_32": milliseconds([t.each for t in many]),
        "per_s": round(sum(_rates(one)) / len(one)),
        "per_s_at_32": round(sum(_rates(many)) / len(many)),
    }


def _rates(found: Sequence[Taken]) -> list[float]:
    return [taken.rate for taken in found]


def statements(kind: Asked) -> int:
    """SQL statements of one request in this process."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(headers=dict(kind.headers[0]), SERVER_NAME="127.0.0.1")
    client.get(kind.path)
    with CaptureQueriesContext(connection) as captured:
        client.get(kind.path)
    return len(captured)


def asked(
    server: Server, path: str, headers: Sequence[Mapping[str, str]], *, at_once: int, seconds: float = SECONDS
) -> Taken:
    """Ask again and again from so many connections; whatever is not 200 ends the run."""
    until, counts, failed = time.monotonic() + seconds, list[int](), list[str]()

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        mine, count = cycle([*headers[first:], *headers[:first]]), 0
        while time.monotonic() < until and not failed:
            connection.request("GET", path, headers=dict(next(mine)))
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                failed.append(f"{answer.status} {body[:500].decode(errors='replace')}")
            count += 1
        connection.close()
        counts.append(count)

    share = max(1, len(headers) // at_once)
    threads = [
        threading.Thread(target=ask, args=(number * share % len(headers),)) for number in range(at_once)
    ]
    cpu, began = processes.cpu_seconds([server.pid]), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    if failed:
        raise RuntimeError(failed[0])
    return Taken(sum(counts), took, processes.cpu_seconds([server.pid]) - cpu)


@contextmanager
def server(*application: str, settings: str = "portal.settings") -> Iterator[Server]:
    """One uvicorn process, as the Procfile starts it, once it answers."""
    from tests.ports import free_port, listens

    port = free_port()
    command = [sys.executable, "-m", "uvicorn", *application, "--port", str(port)]
    # Without a pool, Django's own handler would open a connection for each request.
    pool = {} if settings == "portal.settings" else {"ALLOTMENT_DATABASE_POOL": str(MANY)}
    env: dict[str, Any] = {**os.environ, **pool, "DJANGO_SETTINGS_MODULE": settings}
    process = subprocess.Popen([*command, "--log-level", "warning"], env=env)
    try:
        deadline = time.monotonic() + 60
        while not listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{application[0]} did not start")
            time.sleep(0.1)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=30)
