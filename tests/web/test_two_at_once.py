"""What two requests at the same instant may not do; needs a database with more than one writer."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import Client

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.audit.models import AuditEvent
from apps.audit.specs import Target
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


@pytest.mark.parametrize("redis", ["broker", "no_broker"])
def test_one_key_sent_eight_times_at_once_makes_one_thing(
    redis: str, request: pytest.FixtureRequest, make_token: Callable[..., str]
) -> None:
    request.getfixturevalue(redis)
    headers = {"Authorization": f"Bearer {make_token()}", "Idempotency-Key": "one"}

    def send(_: int) -> int:
        return (
            Client(headers=headers)
            .post("/api/v1/things", {"name": "one"}, content_type="application/json")
            .status_code
        )

    statuses = Counter(all_at_once(send))
    assert stored("one") == 1
    assert set(statuses) <= {201, 409}
    assert statuses[201] >= 1


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
