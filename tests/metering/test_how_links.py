"""Every figure leads to how it was computed: the pages of a lead and of a platform engineer, link by link."""

import re
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from apps.metering.models import Finding
from apps.quotas.models import Budget
from apps.quotas.specs import BudgetUnit
from apps.workloads.models import Workload
from tests.conftest import SignedIn
from tests.factories import make_quota
from tests.metering.used_scene import Used, used
from tests.web.page_list import headers_of

__all__ = ["used"]

LINK = re.compile(r'href="/help/figures/#([a-z-]+)"')


@pytest.fixture
def costly(used: Used) -> Used:
    """With every figure that the pages know: a refund, a finding, a budget, quota, days to foresee from."""
    now = timezone.now()
    Workload.objects.filter(pk=used.hoards.pk).update(
        cost_allocated=Decimal(20), cost_refunded=Decimal(2), cost_effective=Decimal(1),
        cost_waste=Decimal(10), cost_recoverable=Decimal(9), cost_unknown=Decimal(7), cost_as_of=now,
    )  # fmt: skip
    make_finding(used.hoards, now)
    Budget.objects.create(
        tenant=used.cast.vision, unit=BudgetUnit.MONEY, hard_limit=Decimal(900), created_by="petra"
    )
    make_quota(used.cast.vision, used.hoards.offer)
    return used


def make_finding(row: Workload, now: datetime) -> Finding:
    return Finding.objects.create(
        tenant=row.tenant, workload=row, kind="hoarder", since=now - timedelta(hours=8), judged_at=now,
        created_at=now,
        wasted=Decimal(22), weekly=Decimal(400), suggestion={"action": "stop", "saving_weekly": "400"},
    )  # fmt: skip


def anchors(client: Client, url: str) -> set[str]:
    answer = client.get(url, headers=headers_of(url))
    assert answer.status_code == 200, url
    return set(LINK.findall(answer.content.decode()))


def test_each_page_links_its_figures_and_each_anchor_is_there(costly: Used, signed_in: SignedIn) -> None:
    leon, petra = signed_in(costly.cast.leon), signed_in(costly.cast.petra)
    told = set(re.findall(r'id="([a-z-]+)"', leon.get("/help/figures/").content.decode()))
    finding = Finding.objects.get()
    wanted = [
        (leon, "/", {"so-far", "quota"}),
        (leon, "/t/vision/", {"so-far", "quota"}),
        (
            leon,
            f"/t/vision/workloads/{costly.hoards.pk}/",
            {"so-far", "refunds", "effective", "waste", "unknown", "sm"},
        ),
        (leon, "/t/vision/usage/", {"money", "sm", "heat", "finding"}),
        (leon, "/t/vision/bill/", {"money", "statement", "budget"}),
        (leon, "/t/vision/quota/", {"quota", "budget"}),
        (leon, "/t/vision/quota/?part=lent", {"lent"}),
        (leon, "/t/vision/findings/", {"finding", "judged"}),
        (leon, f"/t/vision/findings/{finding.pk}/", {"finding", "saving", "sm"}),
        (petra, "/console/", {"money", "idle", "finding"}),
        (petra, "/console/?part=picture", {"sm"}),
        (petra, "/console/findings/", {"finding"}),
    ]  # fmt: skip
    for client, url, least in wanted:
        found = anchors(client, url)
        assert least <= found, (url, least - found)
        assert found <= told, (url, found - told)


def test_every_table_of_money_links_beside_it(costly: Used, signed_in: SignedIn) -> None:
    team = (costly.cast.leon, "/t/vision/usage/?part=who", 2)
    for user, url, tables in (team, (costly.cast.petra, "/console/", 2)):
        shown = signed_in(user).get(url, headers=headers_of(url)).content.decode()
        after = re.findall(
            r'<table class="cards money">.*?</table>\s*<p[^>]*>[^<]*<a class="how"', shown, re.DOTALL
        )
        assert len(after) == tables, url
