"""A job of Rosa's that idles, and what the tests of findings ask of it."""

from datetime import datetime, timedelta

import pytest

from apps.metering.findings.services import lifecycle
from apps.metering.models import Finding, Sample
from apps.notices.models import Notice
from apps.quotas.models import Price
from apps.workloads.models import Workload
from apps.workloads.specs import Kind
from tests.conftest import Cast
from tests.factories import make_offer, make_quota, make_workload
from tests.metering.traced import HOUR, NOW, running, seen

MINUTE = timedelta(minutes=1)
BEGUN = NOW - 5 * HOUR


@pytest.fixture
def job(cast: Cast) -> Workload:
    """A job of Rosa's that has held a whole GPU at 3 an hour for five hours, and done nothing."""
    offer = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3")
    make_quota(cast.vision, offer, nominal=8)
    row = make_workload(cast.vision, cast.rosa, offer, slug="asr-tune")
    row.kind, row.spec = Kind.JOB, {**row.spec, "kind": "job", "job": {}}
    row.save()
    Price.objects.filter(offer=offer).update(valid_from=BEGUN - 24 * HOUR)
    running(row, since=BEGUN)
    seen("GPU-1-0", BEGUN, NOW + 4 * HOUR)
    return row


def counted(job: Workload) -> Finding:
    """Its finding once it is sure, ten minutes on: the countdown runs to NOW + 40 min."""
    for minutes in (0, 10):
        lifecycle.judge_one(job.pk, now=NOW + minutes * MINUTE)
    row = Finding.objects.get(closed_at=None)
    assert row.stops_at == NOW + 40 * MINUTE
    return row


def blind(since: datetime) -> None:
    Sample.objects.filter(ts__gt=since).delete()


def messages(kind: str) -> list[str]:
    return list(Notice.objects.filter(kind=kind).order_by("user__username").values_list("message", flat=True))
