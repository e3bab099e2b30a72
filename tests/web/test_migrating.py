"""Two who migrate one database at once: the second waits for the first, whatever machine it runs on."""

import threading
from io import StringIO

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from portal.management.commands.migrate import LOCK
from tests.patience import patient

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not settings.CONFIG.database_url, reason="needs PostgreSQL (ALLOTMENT_DATABASE_URL)"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
PATIENCE = 60.0


@pytest.fixture
def elsewhere() -> psycopg.Connection[tuple[bool]]:
    """A connection of another process to the same database."""
    known = connection.settings_dict
    return psycopg.connect(
        dbname=known["NAME"], user=known["USER"], password=known["PASSWORD"] or None,
        host=known["HOST"] or None, port=known["PORT"] or None, autocommit=True,
    )  # fmt: skip


def is_free(other: psycopg.Connection[tuple[bool]]) -> bool:
    (free,) = other.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone() or (False,)
    if free:
        other.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    return free


def migrate(said: StringIO) -> None:
    try:
        call_command("migrate", stdout=said, verbosity=1, interactive=False)
    finally:
        connection.close()


def test_the_second_waits_until_the_first_is_done(elsewhere: psycopg.Connection[tuple[bool]]) -> None:
    said = StringIO()
    with elsewhere as first:
        first.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        second = threading.Thread(target=migrate, args=(said,))
        second.start()
        second.join(1.0)
        assert second.is_alive()
        assert "Another one migrates" in said.getvalue()
        assert "No migrations to apply" not in said.getvalue()
        first.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        second.join(patient(PATIENCE))
        assert not second.is_alive()
        assert "No migrations to apply" in said.getvalue()
        assert is_free(first), "the lock ends with the work"


def test_to_look_at_the_plan_waits_for_nobody(elsewhere: psycopg.Connection[tuple[bool]]) -> None:
    said = StringIO()
    with elsewhere as first:
        first.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        call_command("migrate", plan=True, stdout=said)
    assert "No planned migration operations" in said.getvalue()


def test_a_migration_that_fails_gives_the_lock_back(elsewhere: psycopg.Connection[tuple[bool]]) -> None:
    with elsewhere as other:
        with pytest.raises(Exception, match="nothing_by_this_name"):
            call_command("migrate", "web", "nothing_by_this_name", stdout=StringIO())
        assert is_free(other)
