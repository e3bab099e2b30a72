"""A month that is closed."""

from datetime import UTC, date, datetime, timedelta

from apps.metering.billing.services import statements
from apps.metering.models import Statement
from tests.conftest import Cast, as_actor

OCTOBER, NOVEMBER, DECEMBER = date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1)


AT = datetime(2026, 10, 20, 10, 0, tzinfo=UTC)


NOW = datetime(2026, 11, 2, tzinfo=UTC)


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def close(cast: Cast, month: date = OCTOBER, now: datetime = NOW) -> Statement:
    return statements.close_month(actor=as_actor(cast.petra), tenant=cast.vision, month=month, now=now)
