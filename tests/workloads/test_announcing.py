"""Messages about waiting: to the owner, once per wait and cause, in the page's own words."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.notices.models import Notice
from apps.quotas.models import Offer
from apps.workloads.lifecycle.services import cost_keeping, verbs
from apps.workloads.models import Workload
from apps.workloads.specs import Usage
from apps.workloads.waiting.selectors import waiting
from apps.workloads.waiting.services import announcing
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_workload
from tests.workloads import bodies
from tests.workloads.queueing import tell, waits

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LATER = NOW + timedelta(minutes=10)


def messages() -> list[str]:
    return list(
        Notice.objects.filter(kind="workload.waits").order_by("created_at").values_list("message", flat=True)
    )


def test_what_is_too_large_is_told_once_and_again_for_the_next_wait(cast: Cast, client: Client) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a", age=timedelta(hours=1))
    assert announcing.tell_waits(now=NOW) == 0, "it waits its turn: nobody has to do anything"
    cast.vision.quotas.update(nominal_quota=0, borrowing_limit=0)
    assert (announcing.tell_waits(now=NOW), announcing.tell_waits(now=LATER)) == (1, 0)
    client.force_login(cast.rosa)
    queue = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["queue"]
    assert messages() == [f"a: {queue['message']}"]
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.url) == (cast.rosa, f"/t/vision/workloads/{row.pk}/")
    Workload.objects.filter(pk=row.pk).update(asked_at=LATER)
    assert announcing.tell_waits(now=LATER) == 1


def test_one_more_that_waits_reads_neither_fleet_nor_quota_again(cast: Cast) -> None:
    read = []
    for slug in ("a", "b"):
        waits(cast.vision, cast.rosa, cast.offer, slug)
        with CaptureQueriesContext(connection) as statements:
            announcing.tell_waits(now=NOW)
        read.append([each["sql"] for each in statements])
    assert len(read[1]) <= len(read[0]), read[1]


def test_what_an_engineer_holds_and_what_is_closed_is_told(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    Workload.objects.filter(pk=row.pk).update(held_at=NOW, hold_reason="the node is measured")
    assert announcing.tell_waits(now=NOW) == 1
    assert "Held by a platform engineer since 09:00: the node is measured." in messages()[0]
    Workload.objects.filter(pk=row.pk).update(held_at=None, hold_reason="")
    Offer.objects.filter(pk=cast.offer.pk).update(enabled=False)
    assert announcing.tell_waits(now=LATER) == 1
    assert "is switched off: nothing new starts on it." in messages()[1]


def test_a_check_that_stays_open_is_told_after_a_while(cast: Cast) -> None:
    """RULE: what may pass by itself is told once it has stood for five minutes."""
    row = waits(cast.vision, cast.rosa, cast.offer, "a", age=timedelta(hours=1))
    checked = bodies.queued(bodies.condition("QuotaReserved"))
    checked["status"]["admissionChecks"] = [{"name": "provision", "state": "Pending", "message": "no node"}]
    tell(row, checked, version=90)
    since = {"type": "QuotaReserved", "status": "True", "reason": "", "message": "", "since": NOW.isoformat()}
    Workload.objects.filter(pk=row.pk).update(conditions=[since])
    assert announcing.tell_waits(now=NOW + timedelta(minutes=4)) == 0
    assert (announcing.tell_waits(now=LATER), announcing.tell_waits(now=LATER)) == (1, 0)
    assert "the cluster's check provision has not answered yet" in messages()[0]


def test_a_lost_run_is_told_with_its_refund_and_each_loss_anew(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    for version, at in ((90, "2026-11-20T08:00:00Z"), (91, "2026-11-20T08:30:00Z")):
        gone = [
            bodies.condition("Evicted", reason="Preempted") | {"lastTransitionTime": at},
            bodies.condition("Preempted", reason="InCohortReclamation"),
        ]
        tell(row, bodies.queued(*gone), created=row.asked_at, version=version)
        assert (announcing.tell_waits(now=NOW), announcing.tell_waits(now=LATER)) == (1, 0)
    first, second = messages()
    assert "Preempted 08:00: it ran on 1" in first
    assert "Preempted 08:30: it ran on 1" in second
    assert "What its last hour cost is refunded; the sum is not counted yet." in first


def test_the_sum_that_is_refunded_is_waited_for_and_said_as_on_the_page(cast: Cast, client: Client) -> None:
    row, lost_at = waits(cast.vision, cast.rosa, cast.offer, "a"), NOW - timedelta(seconds=50)
    gone = [
        bodies.condition("Evicted", reason="Preempted") | {"lastTransitionTime": lost_at.isoformat()},
        bodies.condition("Preempted", reason="InCohortReclamation"),
    ]
    tell(row, bodies.queued(*gone), created=row.asked_at, version=90)
    usage = Usage(None, Decimal("8.4"), NOW, Decimal("4.2"), last_refund=Decimal("2.1"))
    older = replace(usage, last_refund_end=lost_at - timedelta(hours=3))
    cost_keeping.record_usage({row.pk: older})
    assert announcing.tell_waits(now=NOW) == 0, "that is the sum of an earlier loss: its own is on its way"
    cost_keeping.record_usage({row.pk: replace(usage, last_refund_end=lost_at + timedelta(seconds=30))})
    assert announcing.tell_waits(now=NOW) == 1
    client.force_login(cast.rosa)
    queue = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["queue"]
    shown = waiting.explanation_for(as_actor(cast.rosa), Workload.objects.get(pk=row.pk), NOW)
    assert shown is not None
    assert "What its last hour cost is refunded: 2.10 EUR." in shown.sentences, "as the page says it"
    assert "What its last hour cost is refunded: 2.10 EUR." in queue["message"]
    assert messages() == [" ".join(("a:", shown.headline, *shown.sentences))]


def test_what_the_cluster_goes_on_refusing_is_told_once(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    row.conditions = [
        {
            "type": "Synced",
            "status": "False",
            "reason": "Invalid",
            "message": "Job a: too long",
            "since": f"{NOW:%FT%TZ}",
        }
    ]
    row.save()
    assert announcing.tell_waits(now=NOW + timedelta(seconds=30)) == 0, "it is tried again first"
    assert announcing.tell_waits(now=NOW + timedelta(seconds=61)) == 1
    assert announcing.tell_waits(now=NOW + timedelta(seconds=120)) == 0
    assert "The cluster refused it. The cluster says: Job a: too long." in messages()[0]


def test_a_loss_told_without_its_sum_is_told_once_more_when_it_is_counted(cast: Cast) -> None:
    row, lost_at = waits(cast.vision, cast.rosa, cast.offer, "a"), NOW - timedelta(minutes=5)
    gone = [
        bodies.condition("Evicted", reason="Preempted") | {"lastTransitionTime": lost_at.isoformat()},
        bodies.condition("Preempted", reason="InCohortReclamation"),
    ]
    tell(row, bodies.queued(*gone), created=row.asked_at, version=90)
    assert (announcing.tell_waits(now=NOW), announcing.tell_waits(now=NOW)) == (1, 0)
    usage = Usage(None, Decimal("8.4"), NOW, Decimal("2.1"), last_refund=Decimal("2.1"))
    cost_keeping.record_usage({row.pk: replace(usage, last_refund_end=lost_at)})
    assert (announcing.tell_waits(now=NOW), announcing.tell_waits(now=LATER)) == (1, 0)
    first, second = messages()
    assert "the sum is not counted yet." in first
    assert "What its last hour cost is refunded: 2.10 EUR." in second


def test_what_was_stopped_is_nobodys_wait(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    Offer.objects.filter(pk=cast.offer.pk).update(enabled=False)
    verbs.stop_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    assert announcing.tell_waits(now=NOW) == 0


def test_an_older_count_of_its_cost_never_replaces_a_newer_one(cast: Cast) -> None:
    """Two ticks price at once: the slower one began before the ledger had the last minutes."""
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    for cost, at in (("8.4", LATER), ("7.9", NOW), ("8.5", LATER)):
        cost_keeping.record_usage({row.pk: Usage(None, Decimal(cost), at)})
        row.refresh_from_db()
        assert row.cost_allocated == Decimal({"7.9": "8.4"}.get(cost, cost))
