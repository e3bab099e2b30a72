"""What each page asks of the database: the same number of statements, however much it shows.

How long a page takes is measured by `make bench SUITE=pages`; statements do not depend on the machine.
"""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.metering.models import Allocation
from apps.tenants.models import Membership
from apps.tenants.specs import Role
from tests import factories
from tests.sample import every
from tests.web import api_scene
from tests.web.page_list import addresses, headers_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
STATEMENTS = {
    "/": 27,
    "/notices/": 8,
    "/me/tokens/": 7,
    "/help/figures/": 6,
    "/t/T/": 24,
    "/t/T/workloads/": 13,
    "/t/T/workloads/W/": 16,
    "/t/T/new/": 24,
    "/t/T/new/notebook/": 22,
    "/t/T/usage/": 22,
    "/t/T/usage/?span=7d": 21,
    "/t/T/usage/?span=7d&part=who": 18,
    "/t/T/bill/": 25,
    "/t/T/allocations/": 9,
    "/t/T/findings/": 15,
    "/t/T/quota/": 23,
    "/t/T/quota/?part=lent": 20,
    "/t/T/quota/?part=spent": 22,
    "/t/T/members/": 15,
    "/t/T/isolation/": 9,
    "/t/T/audit/": 11,
    "/t/T/disks/": 9,
    "/t/T/idle-policy/": 10,
    "/console/": 39,
    "/console/?part=picture": 8,
    "/console/?span=7d&part=picture": 8,
    "/console/?part=use": 10,
    "/console/queue/": 34,
    "/console/nodes/": 8,
    "/console/findings/": 9,
    "/console/offers/": 13,
    "/console/quotas/": 23,
    "/console/prices/": 6,
    "/console/tenants/": 7,
    "/console/tenants/T/": 17,
    "/console/departments/": 6,
    "/console/users/": 14,
    "/console/requests/": 7,
    "/console/telemetry/": 11,
    "/console/drift/": 10,
    "/console/health/": 4,
    "/console/audit/": 6,
    "/console/audit/check/": 10,
    "/console/records/": 4,
    "/console/records/workloads/workload/": 11,
    "/console/records/workloads/workload/W/": 11,
}
"""RULE: a change may lower a number, and raises it only with its reason in the commit. Sums of today are read
hour by hour and then by five minutes: each number is that of an hour of the day in which there are both.
"""


def held(scene: api_scene.Scene, now: datetime) -> None:
    """Each workload held a device for an hour of yesterday."""
    ends = now - timedelta(days=1)
    for row in scene.tenant.workloads.all():
        Allocation.objects.create(
            cluster=row.cluster, tenant=row.tenant, workload=row, offer=row.offer, claim_uid=str(row.pk),
            node="gpu-01", device=row.slug, share_numerator=1, share_denominator=7,
            started_at=ends - timedelta(hours=1), ended_at=ends,
        )  # fmt: skip


def counted(now: datetime, *, workloads: int, offers: int) -> dict[str, int]:
    """Statements of every page, the second time: what is prepared is prepared."""
    scene = api_scene.make(now, workloads=workloads, offers=offers)
    held(scene, now)
    Membership.objects.filter(user=scene.user).update(role=Role.LEAD)
    people = {"lead": scene.user, "platform": factories.make_user("petra", platform_role="platform")}
    ended = scene.tenant.workloads.filter(phase__in=api_scene.ENDED).latest("created_at")
    found = {}
    for who, urls in addresses(scene.tenant.slug, ended.pk).items():
        client = Client()
        client.force_login(people[who])
        for url in urls:
            assert client.get(url, headers=headers_of(url)).status_code == 200, url
            with CaptureQueriesContext(connection) as statements:
                client.get(url, headers=headers_of(url))
            found[url.replace(scene.tenant.slug, "T").replace(str(ended.pk), "W")] = len(statements)
    return found


@pytest.mark.parametrize(("workloads", "offers"), every(2, [(12, 6), (50, 12)]))
def test_a_page_asks_as_much_for_many_rows_as_for_few(workloads: int, offers: int) -> None:
    found = counted(timezone.now(), workloads=workloads, offers=offers)
    assert found.keys() == STATEMENTS.keys()
    # What a process reads once (the fleet by its version) is left out of the later answers.
    assert {url: count for url, count in found.items() if count > STATEMENTS[url]} == {}
