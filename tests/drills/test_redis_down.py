"""Redis carries hints and nothing else: without it requests are as quick, and nothing is lost."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from django.utils import timezone
from pytest_django import Settings

from apps.cluster.reconciling.services import sweep, wake
from apps.web.stores import silence
from apps.web.streams import events
from apps.workloads.models import Workload
from portal.celery import app
from tests.conftest import Cast
from tests.patience import patient, within
from tests.ports import free_port
from tests.workloads.asking import submit

pytestmark = [pytest.mark.exhaustive, pytest.mark.django_db(transaction=True)]
MOST_SECONDS = 0.5
SLACK = 0.3
"""The machine's own unevenness: other tests run beside this one."""
BURST = 40


class Server:
    """A Redis that can be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from portal.demo import redis_server

        command = [redis_server(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen([*command, "--dir", str(self.folder)], stdout=subprocess.DEVNULL)
        until = within(20)
        while not self._answers() and time.monotonic() < until:
            time.sleep(0.02)

    def pause(self) -> None:
        """It hangs: it takes connections and says nothing."""
        if self.process:
            self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def hinted(self) -> set[str]:
        """The ids that wait in the queue, the later ones too."""
        server = redis.Redis(port=self.port)
        raw = [
            entry
            for key in server.keys("celery*")
            if server.type(key) == b"list"
            for entry in server.lrange(key, 0, -1)
        ]
        return {json.loads(entry)["headers"]["argsrepr"] for entry in raw}

    def flush(self) -> None:
        redis.Redis(port=self.port).flushall()

    def _answers(self) -> bool:
        try:
            return bool(redis.Redis(port=self.port).ping())
        except redis.RedisError:
            return False


@pytest.fixture
def server(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The product's broker, cache and live hints are this Redis."""
    made = Server(tmp_path)
    url = f"redis://127.0.0.1:{made.port}/0"
    monkeypatch.setattr(settings.CONFIG, "redis_url", url)
    monkeypatch.setattr(app.conf, "broker_url", url)
    silence.forget()
    wake._connection.cache_clear()
    events._publisher.cache_clear()
    made.start()
    yield made
    made.kill()
    silence.forget()
    wake._connection.cache_clear()
    events._publisher.cache_clear()


def burst(cast: Cast, name: str, count: int = BURST) -> list[float]:
    """So many requests, and how long each took, commit and publishing included."""
    took = []
    for number in range(count):
        began = time.monotonic()
        submit(cast, slug=f"{name}-{number}")
        took.append(time.monotonic() - began)
    return took


def everything() -> set[str]:
    return {f"['{pk}']" for pk in Workload.objects.values_list("pk", flat=True)}


def swept() -> int:
    silence.forget()
    return sweep.hint_due(Workload, "workload", timezone.now())


def test_a_queue_that_is_emptied_is_filled_again_by_the_sweep(cast: Cast, server: Server) -> None:
    burst(cast, "a", BURST // 2)
    assert server.hinted() == everything()
    server.flush()
    burst(cast, "b", BURST // 2)
    assert server.hinted() < everything()
    assert swept() == BURST
    assert server.hinted() == everything()


@pytest.mark.parametrize("outage", ["killed", "hung"])
def test_while_redis_is_down_no_request_waits_and_none_is_lost(
    cast: Cast, server: Server, outage: str, record_property: Callable[[str, object], None]
) -> None:
    plain = sorted(burst(cast, "up", 5))[2]
    (server.kill if outage == "killed" else server.pause)()
    took = burst(cast, "down")
    slower = max(took) - plain
    record_property("slowest_request_slower_by_seconds", round(slower, 3))
    assert slower < patient(MOST_SECONDS + SLACK), took
    assert sum(took) - BURST * plain < BURST * plain + patient(4 * MOST_SECONDS), "not each asks again"
    assert Workload.objects.count() == BURST + 5
    server.kill()
    server.start()
    assert swept() == BURST + 5
    assert server.hinted() == everything()
