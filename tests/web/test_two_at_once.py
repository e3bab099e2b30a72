"""What two requests at the same instant may not do; needs a database with more than one writer."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import Client

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.audit.models import AuditEvent
from apps.audit.specs import Target
from apps.web.models import IdempotencyKey
from apps.web.requests import idempotency
from tests.patience import patient
from tests.web.urls import stored

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not settings.CONFIG.database_url, reason="needs PostgreSQL (ALLOTMENT_DATABASE_URL)"),
    pytest.mark.urls("tests.web.urls"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
THREADS = 8


def all_at_once(act: Callable[[int], int]) -> list[int]:
    def one(number: int) -> int:
        try:
            return act(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


@pytest.fixture
def client(make_token: Callable[..., str]) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token()}", "Idempotency-Key": "one"})


def send(client: Client) -> Any:
    return client.post("/api/v1/things", {"name": "one"}, content_type="application/json")


def test_one_key_sent_eight_times_at_once_makes_one_thing(client: Client, no_broker: None) -> None:
    statuses = Counter(all_at_once(lambda _: send(client).status_code))
    assert stored("one") == 1
    assert set(statuses) <= {201, 409}
    assert statuses[201] >= 1


def test_a_key_is_free_again_once_the_process_that_had_it_is_dead(
    client: Client, no_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    alone = idempotency._is_alone

    def waits(wanted: IdempotencyKey) -> bool:
        is_alone = alone(wanted)
        begun.set()
        over.wait(patient(10))
        return is_alone

    def dies() -> None:
        connection.ensure_connection()
        backends.append(connection.connection.info.backend_pid)
        send(client)

    backends = list[int]()
    monkeypatch.setattr(idempotency, "_is_alone", waits)
    first = threading.Thread(target=dies)
    first.start()
    assert begun.wait(patient(10))
    monkeypatch.setattr(idempotency, "_is_alone", alone)

    second = send(client)
    assert (second.status_code, second.json()["code"]) == (409, "idempotency_in_progress")
    assert (second["Retry-After"], stored("one")) == ("1", 0)

    # As PostgreSQL sees the end of a process: its connection is gone.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", backends)
    assert send(client).status_code == 201
    over.set()
    first.join()
    assert stored("one") == 1


def test_writers_to_one_chain_wait_for_each_other() -> None:
    def write(number: int) -> int:
        for place in range(10):
            with transaction.atomic():
                who, at = Actor(username=f"u{number}"), datetime(2026, 11, 20, tzinfo=UTC)
                audit.record(who, "a", Target("k", place, "n"), now=at)
        return number

    all_at_once(write)
    verdict = audit.verify()
    assert (verdict.links, verdict.breaches) == (THREADS * 10, ())
    assert AuditEvent.objects.count() == THREADS * 10
