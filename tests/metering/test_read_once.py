"""A bill page and a tick read what was held once, and hand it on."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.metering.billing.selectors import line_items
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation, Correction
from apps.workloads.models import Workload
from portal.pages.team.usage import bill, burn
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.books import AT, HOUR

pytestmark = pytest.mark.django_db
NOW = AT + 6 * HOUR
SHARE = {"node": "n1", "share_numerator": 1, "share_denominator": 7, "started_at": AT}


@pytest.fixture
def work(cast: Cast) -> Workload:
    """A workload that holds two devices, one of which was corrected, and one held by kubectl."""
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="train")
    same = {"cluster": row.cluster, "tenant": row.tenant, "offer": row.offer, **SHARE}
    for device in ("a", "b"):
        made = Allocation.objects.create(workload=row, claim_uid=device, device=f"n1/{device}", **same)
    Correction.objects.create(
        allocation=made, started_at=AT + HOUR, reason="late", made_by="petra", made_at=NOW
    )
    Allocation.objects.create(origin="kubectl", claim_uid="c", device="n1/c", gpu="GPU-c", **same)
    return row


def readings(do: Callable[[], Any]) -> int:
    """How many statements fetch the intervals of allocations; those of roll-ups only name them."""
    with CaptureQueriesContext(connection) as asked:
        do()
    table = connection.ops.quote_name(Allocation._meta.db_table)
    started = f"{table}.{connection.ops.quote_name('started_at')}"
    return sum(
        each["sql"].startswith("SELECT") and started in each["sql"].partition(" FROM ")[0]
        for each in asked.captured_queries
    )


def test_a_bill_page_reads_what_was_held_once(cast: Cast, work: Workload) -> None:
    wanted = NOW.date().replace(day=1)
    held = line_items.holdings_of_month([cast.vision], wanted, now=NOW)

    def shown() -> None:
        burn.of_tenant(cast.vision, wanted, now=NOW, held=held)()
        assert bill.shown(cast.vision, wanted, now=NOW, held=held).month.total > 0

    assert readings(shown) == 1


def test_a_tick_reads_what_workloads_held_once(work: Workload) -> None:
    assert readings(lambda: pricing_run.price_workloads([work.pk], now=NOW)) == 1
    work.refresh_from_db()
    assert work.cost_allocated == Decimal("0.42") * (6 + 5)
