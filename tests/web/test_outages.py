"""While the database is away, the log has one line for all requests, and one when it answers again."""

import logging
import sqlite3

import psycopg
import pytest
from django.contrib.messages.middleware import MessageMiddleware
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.test import Client
from psycopg import errors
from redis.exceptions import RedisError

from apps.accounts.models import User
from apps.web.stores import outage, silence, telling
from portal.pages.parts import lazy

pytestmark = pytest.mark.django_db
BEGINS = "the database does not answer: terminating connection due to administrator command"
ADDRESSES = "/me/tokens/", "/api/v1/workloads", "/readyz"


def wrapped(cause: Exception | None, words: str = "") -> OperationalError:
    """As Django raises what its driver did."""
    error = OperationalError(words or str(cause))
    error.__cause__ = cause
    return error


SHUTDOWN = errors.AdminShutdown("terminating connection due to administrator command\nserver closed")
SLOW = errors.QueryCanceled("canceling statement due to statement timeout")


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch) -> outage.Outages:
    """It has answered so far; Redis has not, which is known."""
    monkeypatch.setattr(outage, "redis", outage.Outages("Redis"))
    outage.redis.note(RedisError("none here"))
    fresh = outage.Outages("the database")
    monkeypatch.setattr(outage, "database", fresh)
    return fresh


@pytest.fixture
def client(ada: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(ada)
    return client


def fail(monkeypatch: pytest.MonkeyPatch, cause: psycopg.Error, *, where: type, what: str) -> None:
    def failing(*_args: object) -> None:
        raise wrapped(cause)

    monkeypatch.setattr(where, what, failing)


def asked(client: Client, *addresses: str) -> list[int]:
    """The statuses, of pages, fragments and REST."""
    headers: list[dict[str, str]] = [{}, {"HX-Request": "true"}]
    return [client.get(url, headers=each).status_code for url in addresses for each in headers]


@pytest.mark.parametrize(
    ("where", "what"), [(BaseDatabaseWrapper, "cursor"), (MessageMiddleware, "process_request")]
)
def test_many_requests_are_one_line_in_an_outage(
    where: type, what: str, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as away:
        fail(away, SHUTDOWN, where=where, what=what)
        assert set(asked(client, *ADDRESSES)) == {503}
    connection_created.send(sender=type(connection), connection=connection)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == BEGINS
    assert said[1].startswith("the database answers again after ")
    assert len(said) == 2
    assert "Traceback" not in caplog.text


def test_another_error_of_the_database_keeps_its_traceback(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail(monkeypatch, SLOW, where=BaseDatabaseWrapper, what="cursor")
    assert set(asked(client, *ADDRESSES[:2])) == {503}
    assert caplog.text.count("Traceback") == 4
    assert "does not answer" not in caplog.text


def test_another_error_in_an_outage_keeps_its_traceback(
    database: outage.Outages, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_args: object) -> None:
        raise LookupError("of the test")

    database.note(wrapped(SHUTDOWN))
    monkeypatch.setattr(MessageMiddleware, "process_request", failing)
    assert Client(raise_request_exception=False).get("/me/tokens/").status_code == 500
    assert "LookupError: of the test" in caplog.text


def test_a_part_of_a_page_that_meets_it_has_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> None:
        raise wrapped(SHUTDOWN)

    assert isinstance(lazy.part(failing)(), lazy.Failed)
    assert [record.getMessage() for record in caplog.records] == [BEGINS]


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (wrapped(SHUTDOWN), True),
        (wrapped(errors.CannotConnectNow("the database system is starting up")), True),
        (wrapped(errors.ConnectionFailure("lost")), True),
        (wrapped(psycopg.OperationalError("the connection is closed")), True),
        (InterfaceError("connection already closed"), True),
        (wrapped(SLOW), False),
        (wrapped(errors.DeadlockDetected("deadlock detected")), False),
        (LookupError("of the test"), False),
    ],
)
def test_away_is_what_was_not_there_or_went(error: Exception, *, is_away: bool) -> None:
    assert outage.is_away(error) is is_away


def test_sqlite_is_never_away() -> None:
    assert not outage.is_away(wrapped(sqlite3.OperationalError("no such table: of_the_test")))


def test_what_fails_soon_after_belongs_to_it(
    database: outage.Outages, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.note(SHUTDOWN)
    database.over()
    database.note(SHUTDOWN)
    assert len(caplog.records) == 2
    monkeypatch.setattr(outage, "LATE_SECONDS", 0.0)
    database.note(SHUTDOWN)
    assert [record.getMessage() for record in caplog.records[2:]] == [BEGINS]


def test_the_pool_begins_an_outage_and_says_nothing_in_it(caplog: pytest.LogCaptureFixture) -> None:
    pool, refused = logging.getLogger(outage.POOL), psycopg.OperationalError("connection refused\nIs it up?")
    pool.warning("rolling back returned connection: %s", "of the test")
    for _ in range(3):
        pool.warning("error connecting in %r: %s", "pool-1", refused)
        pool.warning("reconnection attempt in pool %r failed after %s sec", "pool-1", 2)
    assert [record.getMessage() for record in caplog.records] == [
        "rolling back returned connection: of the test",
        "the database does not answer: connection refused",
    ]


def test_a_server_that_meets_it_in_a_stream_has_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    error = wrapped(SHUTDOWN)
    logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=error)
    assert [record.getMessage() for record in caplog.records] == [BEGINS]


def test_a_redis_that_is_away_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outage, "redis", outage.Outages("Redis"))
    told = [RedisError("connection refused"), RedisError("connection refused"), None]

    class Pipe:
        def execute(self) -> None:
            if error := told.pop(0):
                raise error

    monkeypatch.setattr(telling.Teller, "_pipe", lambda *_: Pipe())
    teller = telling.Teller("web")
    assert [teller.tell() for _ in range(3)] == [False, False, True]
    silence.note(RedisError("a connection from before"))
    silence.forget()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "Redis does not answer: connection refused"
    assert said[1].startswith("Redis answers again after ")
    assert len(said) == 2
