"""The world of the drills, with its queue in the test's hands."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import converge, wake
from tests.drills.world import MODELS, Hint, World


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[Hint]:
    """The queue: what would have been sent stays here. The broker itself is drilled in test_redis_down."""
    sent: list[Hint] = []
    caplog.set_level(logging.ERROR, "apps.web.streams.events")  # no Redis: every live hint would be a line
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
