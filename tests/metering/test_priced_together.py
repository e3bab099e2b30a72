"""Findings of many workloads are priced together: as each would be alone, with few statements."""

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.metering.billing.rules import effective_split
from apps.metering.billing.rules.effective_split import Exact
from apps.metering.billing.selectors import charges
from apps.metering.findings.services import measuring
from apps.metering.models import Allocation, Correction, Finding, RollPosition
from apps.metering.specs import FindingKind, FindingPhase
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_offer, make_workload
from tests.metering.made_buckets import floor, roll
from tests.metering.priced_scene import AT, DAY, HOUR, NOW, SECOND, held, preempt, price
from tests.sample import every

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
Windows = dict[UUID, tuple[datetime, datetime]]


def alone(workload: UUID, begins: datetime, ends: datetime, now: datetime) -> Exact:
    rows = Allocation.objects.filter(workload=workload)
    return effective_split.together([Exact(), *charges.charges(rows, begins, ends, now=now).values()])


def past(cast: Cast, rng: Random) -> Windows:
    """Workloads that held devices of two offers, some preempted, corrected, or still holding; some beside a
    new price. Each with a time of its own, to the second.
    """
    offers = [cast.offer, make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3.33333333")]
    windows = {}
    for number in range(9):
        row = make_workload(cast.vision, cast.rosa, rng.choice(offers), slug=f"w{number}")
        for device in range(rng.randint(0, 3)):
            begins = AT + timedelta(seconds=rng.randint(0, 200_000), microseconds=rng.randint(0, 999_999))
            ends = rng.choice((None, begins + rng.randint(60, 90_000) * SECOND))
            one = held(row, begins, ends, f"{number}-{device}", offer=rng.choice(offers))
            roll(one, NOW - 7 * 60 * SECOND, rng)
            if ends and rng.random() < 0.2:
                preempt(row, ends)
            if ends and rng.random() < 0.2:
                Correction.objects.create(
                    allocation=one, started_at=begins, ended_at=begins + (ends - begins) / 2,
                    reason="clock", made_by="petra", made_at=NOW,
                )  # fmt: skip
        begins = AT + rng.randint(0, 250_000) * SECOND
        windows[row.pk] = (begins, rng.choice((NOW + HOUR, begins + rng.randint(1, 90_000) * SECOND)))
    for cents in rng.sample(range(100, 999), rng.choice((0, 0, 2))):
        price(rng.choice(offers), f"{cents / 100}", AT + rng.randint(0, 290_000) * SECOND)
    return windows


@pytest.mark.parametrize("seed", every(4, range(24)))
def test_workloads_together_cost_what_each_costs_alone(cast: Cast, seed: int) -> None:
    rng = Random(seed)
    windows = past(cast, rng)
    if seed % 3 == 2:
        position = {"cluster": cast.vision.cluster, "since": AT - DAY, "until": NOW}
        RollPosition.objects.create(**position, pruned_until=floor(AT + DAY, 3600))
    found = charges.charges_each(windows, now=NOW)
    assert found.keys() == windows.keys()
    for pk, window in windows.items():
        one, own = effective_split.together([Exact(), *found[pk]]), alone(pk, *window, NOW)
        assert (one.allocated, one.refunded, one.seconds) == (own.allocated, own.refunded, own.seconds)
        assert one.parts() == own.parts()
    assert any(each.effective for lines in found.values() for each in lines)


def finding(row: Workload, begins: datetime, ends: datetime, **more: object) -> Finding:
    known = {"kind": FindingKind.HOARDER, "since": begins, "created_at": begins, "judged_at": ends}
    idle = [[begins.timestamp(), ends.timestamp()]]
    return Finding.objects.create(workload=row, tenant=row.tenant, idle=idle, **(known | more))


def hoarders(cast: Cast, count: int) -> list[Finding]:
    """Each of another workload, that idles since another hour and does so still, at 2 an hour."""
    Price.objects.update(valid_from=AT - DAY, hourly=Decimal(2))
    found = []
    for number in range(count):
        row = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"h{number}-of-{count}")
        one = held(row, AT + number * HOUR, None, row.slug)
        roll(one, NOW, hoarded=0.5, effective=0.25)
        found.append(finding(row, AT + number * HOUR, NOW))
    return found


def test_the_ledger_is_asked_as_often_for_many_findings_as_for_one(cast: Cast) -> None:
    asked = []
    for count in (1, 8):
        rows = hoarders(cast, count)
        with CaptureQueriesContext(connection) as statements:
            measuring.price(rows, now=NOW)
        asked.append(len(statements) - count)
        kept = Finding.objects.filter(pk__in=[each.pk for each in rows]).order_by("since")
        costs = [2 * (NOW - AT - number * HOUR) / HOUR for number in range(count)]
        assert [row.wasted for row in kept] == [Decimal(cost) / 2 for cost in costs]
        assert [Decimal(row.evidence["effective"]) for row in kept] == [Decimal(cost) / 4 for cost in costs]
    assert asked[0] == asked[1], "beside one write for each"


def test_findings_of_one_workload_are_priced_in_their_own_times(cast: Cast) -> None:
    (now,) = hoarders(cast, 1)
    earlier = finding(now.work, AT, AT + 10 * HOUR, phase=FindingPhase.RESOLVED, closed_at=AT + 10 * HOUR)
    zombie = finding(now.work, AT + 10 * HOUR, AT + 20 * HOUR, kind=FindingKind.ZOMBIE)
    measuring.price([now, earlier, zombie], now=NOW)
    costs = [Finding.objects.get(pk=each.pk).wasted for each in (now, earlier, zombie)]
    assert costs == [Decimal((NOW - AT) / HOUR), Decimal(10), Decimal(0)]


def test_what_is_judged_meanwhile_keeps_what_that_judgement_says(cast: Cast) -> None:
    (row,) = hoarders(cast, 1)
    judged = {"judged_at": NOW + SECOND, "evidence": {"figures": {"sm_active": 0.5}}, "wasted": Decimal(7)}
    Finding.objects.update(**judged)
    measuring.price([row], now=NOW)
    assert Finding.objects.values(*judged).get() == judged
