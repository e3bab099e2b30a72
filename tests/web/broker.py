"""A Redis of the tests' own, with the product pointed at it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import current_app
from pytest_django import Settings

from apps.cluster.reconciling.services import wake
from apps.web.stores import silence
from apps.web.streams import events
from portal.packages import embedded_redis
from tests.patience import within
from tests.ports import free_port, listens


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """An empty Redis: its port and its process, which ends afterwards unless a test has ended it."""
    program = embedded_redis.program()
    assert program, embedded_redis.INSTALL
    port = free_port()
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    until = within(20)
    while not listens(port) and time.monotonic() < until:
        time.sleep(0.05)
    yield port, server
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Redis that ends with the session."""
    with serving(tmp_path_factory.mktemp("redis")) as (port, _):
        yield port


def _point_at(url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.CONFIG, "redis_url", url)
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": url}}
    # Celery's broker is the same Redis everywhere: where it were silent, live hints would wait as well.
    monkeypatch.setattr(current_app.conf, "broker_url", url)
    wake._connection.cache_clear()
    events._publisher.cache_clear()
    silence.forget()
    events._gap.clear()


@pytest.fixture
def broker(redis_server: int, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Redis answers, and is empty."""
    from django.core.cache import cache

    url = f"redis://127.0.0.1:{redis_server}/0"
    _point_at(url, settings, monkeypatch)
    cache.clear()
    yield url
    events._publisher.cache_clear()


@pytest.fixture
def no_broker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody listens where Redis should be."""
    _point_at(f"redis://127.0.0.1:{free_port()}/0", settings, monkeypatch)
    yield
    events._publisher.cache_clear()
