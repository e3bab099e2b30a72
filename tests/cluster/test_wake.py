"""Hints reach a real broker, and a missing broker costs next to nothing."""

import contextlib
import json
import socket
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis
from django.db import transaction

from apps.cluster.reconciling.services import sweep, wake
from apps.web.stores import silence
from portal.celery import app
from tests.patience import patient
from tests.ports import free_port

pytestmark = pytest.mark.both_databases


@pytest.fixture
def pointed(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    wake._connection.cache_clear()
    silence.forget()
    yield monkeypatch
    silence.forget()
    wake._connection.cache_clear()


def lost() -> float:
    return float(wake.LOST_HINTS._value.get())


def test_every_row_kind_has_its_task_and_its_model() -> None:
    # An attestation is no row that is reconciled: it is a tenant's, and its own sweep finds it.
    assert wake.TASKS.keys() - {"attestation", "drift-check"} == sweep.ROWS.keys()


@pytest.mark.django_db(transaction=True)
def test_a_hint_is_sent_when_the_transaction_commits(redis_server: int, pointed: pytest.MonkeyPatch) -> None:
    pointed.setattr(app.conf, "broker_url", f"redis://127.0.0.1:{redis_server}/5")
    client = redis.Redis(port=redis_server, db=5)
    client.flushdb()
    row = uuid4()

    with transaction.atomic():
        wake.hint("workload", row)
        assert client.llen("celery") == 0

    (raw,) = client.lrange("celery", 0, -1)
    headers = json.loads(raw)["headers"]
    assert headers["task"] == "workloads.reconcile"
    assert str(row) in headers["argsrepr"]


@pytest.mark.django_db(transaction=True)
def test_what_people_ask_for_is_taken_before_what_the_cluster_tells(
    redis_server: int, pointed: pytest.MonkeyPatch
) -> None:
    pointed.setattr(app.conf, "broker_url", f"redis://127.0.0.1:{redis_server}/6")
    redis.Redis(port=redis_server, db=6).flushdb()
    told, asked = uuid4(), uuid4()
    wake.hint("workload", told, urgent=False)
    wake.hint("workload", asked)

    with app.connection_for_read() as connection, connection.SimpleQueue("celery") as queue:
        taken = [queue.get(timeout=patient(5)).headers["argsrepr"] for _ in range(2)]

    assert [str(asked) in taken[0], str(told) in taken[1]] == [True, True]


@pytest.mark.django_db(transaction=True)
def test_without_a_broker_a_request_is_not_held_up_and_the_loss_is_counted(
    pointed: pytest.MonkeyPatch,
) -> None:
    pointed.setattr(silence, "PAUSE_SECONDS", 60)
    pointed.setattr(app.conf, "broker_url", f"redis://127.0.0.1:{free_port()}/0")
    before = lost()

    for _ in range(100):
        wake.hint("tenant", uuid4())

    assert lost() - before == 100
    assert silence.holds(), "the next one would wait for it again"


def connections(mute: socket.socket) -> int:
    """Who has come to it since the last look."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            mute.accept()[0].close()
            count += 1
    return count


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_swallows_everything_holds_a_request_up_for_half_a_second(
    pointed: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        pointed.setattr(app.conf, "broker_url", f"redis://127.0.0.1:{mute.getsockname()[1]}/0")
        mute.setblocking(False)
        pointed.setattr(silence, "PAUSE_SECONDS", 60)
        wake.hint("tenant", uuid4())
        assert connections(mute) > 0

        for _ in range(10):
            wake.hint("tenant", uuid4())

        assert connections(mute) == 0, "each of them waited anew"
