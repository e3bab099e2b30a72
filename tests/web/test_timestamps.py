"""Times of PostgreSQL are read as Django's own loader reads them."""

from datetime import UTC

import pytest
from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from psycopg import DataError

from apps.web.stores.timestamps import UtcLoader

OID = 1184
TIMES = (
    b"2026-11-23 14:39:39+00",
    b"2026-11-23 14:39:39.5+00",
    b"2026-11-23 14:39:39.123456+00",
    b"2026-11-23 14:39:39.123456+05:30",
    b"0001-01-01 00:00:00+00",
    b"9999-12-31 23:59:59.999999+00",
)
BEYOND = (b"infinity", b"-infinity", b"0044-03-15 12:00:00+00 BC", b"10000-01-01 00:00:00+00")


class Djangos(BaseTzLoader):  # type: ignore[misc]
    """What Django makes for a connection in UTC."""

    timezone = UTC


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_read_as_django_reads_it(text: bytes) -> None:
    found = UtcLoader(OID).load(memoryview(text))
    assert found == Djangos(OID).load(text)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("text", BEYOND)
def test_what_no_datetime_can_hold_is_refused_as_django_refuses_it(text: bytes) -> None:
    with pytest.raises(DataError) as theirs:
        Djangos(OID).load(text)
    with pytest.raises(DataError) as ours:
        UtcLoader(OID).load(text)
    assert str(ours.value) == str(theirs.value)
