"""A database without room: SQLite's own error, as it raises it where it may take no further page."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client, RequestFactory

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.tenants.models import Tenant
from apps.web.stores import outage
from portal.middleware import unavailable
from portal.operate import service_checks
from portal.operate.findings import OK, WRONG
from tests.conftest import Cast, client_of

pytestmark = pytest.mark.django_db(transaction=True)
NO_LIMIT = 2**32 - 2
MOST = 500
"""Changes until no page is left: each adds a row of the audit record."""


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> outage.Outages:
    """There was some so far."""
    fresh = outage.Outages("the database", "cannot write, because its disk is full", "has room again")
    monkeypatch.setattr(outage, "room", fresh)
    return fresh


@pytest.fixture
def full(cast: Cast) -> Iterator[Cast]:
    """From here on no page more."""
    if connection.vendor != "sqlite":
        pytest.skip("a PostgreSQL without room is drilled in test_disk_full.py of the drills")
    with connection.cursor() as cursor:
        # What earlier tests left free would be room.
        free, size = (_number(cursor, name) for name in ("freelist_count", "page_size"))
        cursor.execute("CREATE TABLE filler AS SELECT zeroblob(%s)", [free * size])
        cursor.execute(f"PRAGMA max_page_count = {_number(cursor, 'page_count')}")
    yield cast
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA max_page_count = {NO_LIMIT}")
        cursor.execute("DROP TABLE filler")


def _number(cursor: Any, name: str) -> int:
    cursor.execute(f"PRAGMA {name}")
    return int(cursor.fetchone()[0])


def rename(client: Client, number: int) -> int:
    name = {"name": f"Vision {number}"}
    answer = client.patch(
        "/api/v1/tenants/vision", name, content_type="application/json", headers={"If-Match": "*"}
    )
    if answer.status_code == 503:
        assert answer.json()["detail"].startswith("The disk of the database is full: ")
        assert answer["Retry-After"]
    return int(answer.status_code)


def test_a_change_is_refused_and_none_is_applied_without_its_record(
    full: Cast, caplog: pytest.LogCaptureFixture, room: outage.Outages
) -> None:
    """RULE: the change and its event are one transaction, so what the record has no room for is not done."""
    petra = client_of(full.petra)
    taken = [number for number in range(MOST) if rename(petra, number) == 200]
    assert len(taken) < MOST, "there was no room"
    recorded = (
        AuditEvent.objects.filter(action="tenant.update").order_by("id").values_list("changes", flat=True)
    )
    assert [f"Vision {number}" for number in taken] == [each["name"][1] for each in recorded]
    assert Tenant.objects.get(slug="vision").name == recorded.reverse()[0]["name"][1]
    assert petra.get("/api/v1/tenants/vision").status_code == 200
    assert petra.get("/console/").status_code == 200
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len([words for words in said if "disk is full" in words]) == 1
    assert "Traceback" not in caplog.text
    outage.look()
    assert not room.lasts


@pytest.mark.usefixtures("full")
def test_a_note_of_a_use_is_left_out_outside_a_transaction(room: outage.Outages) -> None:
    """RULE: who may read is not refused for it. In a transaction nothing is left out of it unsaid."""
    many = [User(username=f"{'x' * 140}{number}") for number in range(10 * MOST)]
    with pytest.raises(OperationalError), transaction.atomic(), outage.dispensable():
        User.objects.bulk_create(many)
    assert not room.explains_failures()
    with outage.dispensable():
        User.objects.bulk_create(many)
    assert room.lasts
    assert not User.objects.filter(username=many[0].username).exists()


@pytest.mark.usefixtures("full")
def test_a_page_says_that_it_is_the_disk() -> None:
    with pytest.raises(OperationalError) as raised:
        User.objects.bulk_create(User(username=f"{'x' * 140}{number}") for number in range(10 * MOST))
    answer = unavailable(raised.value, RequestFactory().get("/"))
    assert answer.status_code == 503
    assert "The disk of its database is full" in answer.content.decode()


@pytest.mark.both_databases
def test_the_doctor_tries_whether_there_is_room(
    monkeypatch: pytest.MonkeyPatch, room: outage.Outages
) -> None:
    assert [each.state for each in service_checks.room(whole=True)] == [OK]
    assert list(service_checks.room(whole=False)) == []
    monkeypatch.setattr(outage, "has_room", lambda: False)
    room.note(OperationalError("of the test"))
    assert [each.state for each in service_checks.room(whole=False)] == [WRONG]
