"""A tenant with use, and its people signed in."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.quotas.models import Offer, Price
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from tests import factories
from tests.conftest import Cast
from tests.metering import rolled

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Used:
    """vision's `trains` works and its `hoards` sits, for eight hours each; otto's `other` is of genomics."""

    cast: Cast
    trains: Workload
    hoards: Workload
    other: Workload
    now: datetime


def work(tenant: Tenant, owner: User, offer: Offer, slug: str) -> Workload:
    spec = parsing.as_json(parsing.parse(factories.notebook_body(offer.slug)))
    return factories.make_workload(tenant, owner, offer, slug=slug, spec=spec)


@pytest.fixture
def used(cast: Cast) -> Used:
    now = rolled.floor(timezone.now())
    whole = factories.make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    Price.objects.update(valid_from=now - 10 * DAY)
    trains = work(cast.vision, cast.rosa, whole, "bert-ft")
    hoards = work(cast.vision, cast.leon, whole, "vit-old")
    other = work(cast.genomics, cast.otto, whole, "secret-run")
    begins = now - timedelta(hours=8)
    rolled.hold(trains, ("gpu-01", "GPU-0000-aaaa"), begins, now)
    rolled.hold(hoards, ("gpu-01", "GPU-0000-bbbb"), begins, now, rolled.HOARDS)
    rolled.hold(other, ("gpu-02", "GPU-0000-cccc"), begins, now)
    rolled.rest(cast.vision.cluster, ("gpu-02", "GPU-0000-dddd"), begins, now, "free")
    rolled.reach(cast.vision.cluster, now - 7 * DAY, now)
    return Used(cast, trains, hoards, other, now)
