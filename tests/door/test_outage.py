"""Whatever the door asks a database that is away: one line of its log, however many come in."""

import asyncio
from collections.abc import Callable

import pytest
from django.db import InterfaceError, OperationalError

from apps.web.stores import outage
from portal.door import asking

pytestmark = pytest.mark.django_db


def test_an_outage_is_one_line_for_all_who_come_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outage, "database", outage.Outages("the database"))
    caplog.set_level("INFO")

    def refused(error: Exception) -> None:
        raise error

    for error in (OperationalError("the connection is closed"), InterfaceError("connection already closed")):
        with pytest.raises(type(error)):
            asyncio.run(_asked(refused, error))
        asking.note(refused, error)
    asking._NOTES.submit(lambda: None).result(5)

    said = [record.getMessage() for record in caplog.records if record.name.startswith(("apps", "portal"))]
    assert said == ["the database does not answer: the connection is closed"]


async def _asked(of: Callable[[Exception], None], error: Exception) -> None:
    await asking.in_thread(of, error)
