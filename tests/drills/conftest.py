"""The world of the drills, with its queue in the test's hands."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import converge, wake
from apps.workloads.models import Workload
from tests.drills.installed import Installed, clear
from tests.drills.world import MODELS, Ask, Clock, Hint, World
from tests.story.conftest import Installation, installation

# Named here, once: a module that imported it would get a second demo on the same cluster.
__all__ = ["installation"]


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[Hint]:
    """The queue: what would have been sent stays here. The broker itself is drilled in test_redis_down."""
    sent: list[Hint] = []
    caplog.set_level(logging.ERROR, "apps.web.stores.outage")  # no Redis: one of them would say so
    monkeypatch.setattr(
        wake, "hint", lambda owner, pk, **_how: sent.append((owner, str(pk))) if owner in MODELS else None
    )
    return sent


class OneThread:
    """An executor whose calls come one after the other in the caller's thread, where a drill may step in."""

    def submit(self, call: Callable[..., Any], *given: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(call(*given))
        return done


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drill that acts in the middle of a level needs its database there."""
    monkeypatch.setattr(converge, "_threads", lambda _pid: OneThread())


@pytest.fixture
def world(cluster: Cluster, hints: list[Hint]) -> World:
    return World(cluster, hints)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def notebook(world: World) -> Workload:
    row = world.submit(Ask("nb"))
    world.settle()
    world.gateway.forget()
    return row


@pytest.fixture
def served(world: World) -> Workload:
    """A service: it has a Service of its own, which people edit."""
    row = world.submit(Ask("llm", kind="service"))
    world.settle()
    world.gateway.forget()
    return row


@pytest.fixture
def demo(installation: Installation) -> Iterator[Installed]:
    """The demo, with everything removed afterwards that the drill made in it."""
    found = Installed(installation)
    yield found
    clear(found)
