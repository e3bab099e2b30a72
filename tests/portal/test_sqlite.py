"""What is our own in SQLite's backend."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, Func, Value
from django.db.models.fields import CharField, DateTimeField, UUIDField
from django.db.models.functions import Cast

from apps.accounts.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a type for UUIDs")
def test_a_uuid_is_parsed_once_however_often_it_is_read() -> None:
    """Of one text one object, right to the last digit; NULL stays NULL."""
    make_user("rosa")
    value = uuid4()
    asked = User.objects.annotate(
        known=Cast(Value(value.hex), UUIDField()), none=Cast(Value(None), UUIDField())
    ).values_list("known", "none")
    (first, nothing), (second, _) = asked.get(), asked.get()
    assert (first, nothing) == (value, None)
    assert first is second


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-29 17:25:48", datetime(2026, 11, 29, 17, 25, 48, tzinfo=UTC)),
        ("2026-11-29 17:25:48.000012", datetime(2026, 11, 29, 17, 25, 48, 12, tzinfo=UTC)),
        ("2026-11-29 17:25:48.5", datetime(2026, 11, 29, 17, 25, 48, 500_000, tzinfo=UTC)),
        ("2026-11-29 18:25:48+01:00", datetime(2026, 11, 29, 17, 25, 48, tzinfo=UTC)),
        ("2026-11-29 7:05", datetime(2026, 11, 29, 7, 5, tzinfo=UTC)),
        (None, None),
    ],
)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a type for times")
def test_a_time_is_read_as_django_reads_it(text: str | None, time: datetime | None) -> None:
    make_user("rosa")
    stored = Cast(Value(text, output_field=CharField()), CharField())
    (known,) = User.objects.annotate(at=ExpressionWrapper(stored, DateTimeField())).values_list(
        "at", flat=True
    )
    assert known == time
    assert known is None or known.tzinfo is not None


@pytest.mark.parametrize(
    ("later", "earlier", "span"),
    [
        ("2026-11-29 17:25:48", "2026-11-29 17:25:47.999999", timedelta(microseconds=1)),
        ("2026-12-01 00:00:00.5", "2026-11-29 23:59:59", timedelta(days=1, seconds=1.5)),
        ("2026-11-29 00:00:00", "2026-11-30 00:00:01", timedelta(days=-1, seconds=-1)),
        ("2026-11-29 7:05:00", "2026-11-29 07:00:00", timedelta(minutes=5)),
        ("2026-11-29 17:25:48", None, None),
        (None, "2026-11-29 17:25:48", None),
    ],
)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a type for times")
def test_the_span_between_two_times_is_exact(
    later: str | None, earlier: str | None, span: timedelta | None
) -> None:
    make_user("rosa")
    between = Func(Value(later), Value(earlier), function="django_timestamp_diff")
    (known,) = User.objects.annotate(
        span=ExpressionWrapper(between, output_field=DurationField())
    ).values_list("span", flat=True)
    assert known == span
