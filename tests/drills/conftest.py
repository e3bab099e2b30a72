"""The world of the drills, with its queue in the test's hands."""

import logging
from typing import Self

import pytest

from apps.cluster import converge, wake
from apps.cluster.models import Cluster
from tests.drills.world import MODELS, Hint, World


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[Hint]:
    """The queue: what would have been sent stays here. The broker itself is drilled in test_redis_down."""
    sent: list[Hint] = []
    caplog.set_level(logging.ERROR, "apps.web.events")  # no Redis: every live hint would be a line
    monkeypatch.setattr(
        wake, "hint", lambda owner, pk, **_how: sent.append((owner, str(pk))) if owner in MODELS else None
    )
    return sent


class OneThread:
    """An executor whose calls come one after the other in the caller's thread, where a drill may step in."""

    def __init__(self, max_workers: int) -> None:
        self.max_workers = max_workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    map = staticmethod(map)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drill that acts in the middle of a level needs its database there."""
    monkeypatch.setattr(converge, "ThreadPoolExecutor", OneThread)


@pytest.fixture
def world(cluster: Cluster, hints: list[Hint]) -> World:
    return World(cluster, hints)
