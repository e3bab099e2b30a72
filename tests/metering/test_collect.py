"""From the mirror to allocations, costs and REST."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.metering import periodic
from apps.metering.allocations.selectors.allocations import attribution
from apps.metering.allocations.services import collect as collecting
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation, TelemetryIssue
from apps.metering.specs import Attribution, Formula
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_offer, make_workload
from tests.workloads import bodies
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def row(cast: Cast) -> Workload:
    """A notebook whose pod holds one slice since AT."""
    found = make_workload(cast.vision, cast.rosa, cast.offer)
    _holds(found, "gpu-01/gpu-0-mig-1", "w-0", version=1)
    return found


def _holds(row: Workload, device: str, name: str, *, version: int, at: datetime = AT) -> None:
    pod = bodies.ready_pod(uid=f"{name}-pod")
    pod["metadata"] |= {"name": name, "labels": owner_labels(owner="workload", uid=row.pk)}
    tell(row, pod, version)
    claim = bodies.claim(device, owner=f"{name}-pod", uid=f"{name}-claim")
    claim["metadata"]["name"] = f"{name}-claim"
    claim["status"]["allocation"]["allocationTimestamp"] = at.isoformat()
    tell(row, claim, version + 1)


def tell(row: Workload, body: dict[str, Any], version: int) -> None:
    body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
    mirror_table.record_seen(row.cluster, [Sighting(body["kind"], body)], now=AT)


def gather(row: Workload, now: datetime) -> None:
    pricing_run.price_workloads(collect(row.cluster, now=now).workloads, now=now)
    row.refresh_from_db()


def test_an_open_allocation_is_priced_up_to_now(row: Workload) -> None:
    gather(row, AT + HOUR)
    held = Allocation.objects.get()
    assert (held.workload, held.started_at, held.ended_at, held.node) == (row, AT, None, "gpu-01")
    assert (held.share_numerator, held.share_denominator) == (1, 7)
    assert (row.cost_hourly, row.cost_allocated, row.cost_as_of) == (
        Decimal("0.42"),
        Decimal("0.42"),
        AT + HOUR,
    )


def test_collecting_again_makes_nothing_new(row: Workload) -> None:
    for _ in range(3):
        gather(row, AT + HOUR)
    assert Allocation.objects.count() == 1
    assert row.cost_allocated == Decimal("0.42")


def test_a_tick_asks_as_often_for_seven_workloads_as_for_one(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pricing_run, "PRICED_EVERY", timedelta(0))
    alone = _asked_by_a_tick()
    for number in range(6):
        work = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"more-{number}")
        _holds(work, f"gpu-01/gpu-0-mig-{number + 2}", f"more-{number}", version=3 + number)
    assert _asked_by_a_tick() == alone
    assert set(Workload.objects.values_list("cost_hourly", flat=True)) == {Decimal("0.42")}
    assert Allocation.objects.filter(ended_at=None).count() == 7


def test_what_holds_on_is_priced_once_a_minute_and_what_changes_at_once(
    row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tick(seconds: int) -> datetime | None:
        monkeypatch.setattr(timezone, "now", lambda: AT + HOUR + timedelta(seconds=seconds))
        periodic.collect_allocations()
        row.refresh_from_db()
        return row.cost_as_of

    assert [tick(at) for at in (0, 15, 30, 45)] == [AT + HOUR] * 4
    assert tick(60) == AT + HOUR + timedelta(minutes=1)
    MirrorObject.objects.filter(kind__in=["ResourceClaim", "Pod"]).update(gone_at=AT + HOUR)
    assert tick(75) == AT + HOUR + timedelta(seconds=75)
    assert row.cost_hourly is None


def _asked_by_a_tick() -> int:
    """Statements of a tick by which nothing began or ended: the one before has seen all that is held."""
    periodic.collect_allocations()
    with CaptureQueriesContext(connection) as asked:
        periodic.collect_allocations()
    return len(asked)


def test_an_allocation_ends_with_its_claim_and_costs_no_more(row: Workload) -> None:
    gather(row, AT + HOUR)
    MirrorObject.objects.filter(kind__in=["ResourceClaim", "Pod"]).update(gone_at=AT + 2 * HOUR)
    gather(row, AT + 5 * HOUR)
    assert Allocation.objects.get().ended_at == AT + 2 * HOUR
    assert (row.cost_hourly, row.cost_allocated) == (None, Decimal("0.84"))


def test_an_end_that_was_seen_late_is_the_start_of_the_next_holder(cast: Cast, row: Workload) -> None:
    """RULE: nobody pays for the seconds in which somebody else held the device already."""
    gather(row, AT + HOUR)
    MirrorObject.objects.filter(kind__in=["ResourceClaim", "Pod"]).update(gone_at=AT + 2 * HOUR)
    gather(row, AT + 2 * HOUR)
    following = make_workload(cast.vision, cast.rosa, cast.offer, slug="next")
    _holds(following, "gpu-01/gpu-0-mig-1", "next", version=3, at=AT + HOUR)
    gather(row, AT + 2 * HOUR)
    assert row.allocations.get().ended_at == AT + HOUR
    assert row.cost_allocated == Decimal("0.42")
    assert following.allocations.get().ended_at is None


def test_of_several_holders_between_two_looks_every_one_ends_where_the_next_begins(
    cast: Cast, row: Workload
) -> None:
    """RULE: the first of them counts too, whose end was seen before the last of them began."""
    names = ("second", "third")
    second, third = (make_workload(cast.vision, cast.rosa, cast.offer, slug=name) for name in names)
    _holds(second, "gpu-01/gpu-0-mig-1", "second", version=3, at=AT + HOUR)
    _holds(third, "gpu-01/gpu-0-mig-1", "third", version=5, at=AT + 3 * HOUR)
    for name, hours in (("w-0", 2), ("second", 4)):
        gone = MirrorObject.objects.filter(name__in=[name, f"{name}-claim"])
        gone.update(gone_at=AT + hours * HOUR)
    gather(row, AT + 5 * HOUR)
    ends = [holder.allocations.get().ended_at for holder in (row, second, third)]
    assert ends == [AT + HOUR, AT + 3 * HOUR, None]


def test_what_ends_after_long_reads_nothing_of_what_came_and_went_on_other_gpus(
    cast: Cast, row: Workload
) -> None:
    """RULE: a look that sees an old holder's end costs no more, the more there was meanwhile."""
    gather(row, AT + HOUR)
    short, read = make_workload(cast.vision, cast.rosa, cast.offer, slug="short"), []
    for number in range(12):
        _holds(short, "gpu-02/gpu-0-mig-1", f"s-{number}", version=10 + 2 * number, at=AT + number * HOUR)
        gone = MirrorObject.objects.filter(name__in=[f"s-{number}", f"s-{number}-claim"])
        gone.update(gone_at=AT + (number + 1) * HOUR)
        gather(row, AT + (number + 1) * HOUR)
    _holds(short, "gpu-02/gpu-0-mig-1", "last", version=90, at=AT + 13 * HOUR)
    MirrorObject.objects.filter(name__in=["w-0", "w-0-claim"]).update(gone_at=AT + 13 * HOUR)

    def count(**_: Any) -> None:
        read.append(1)

    post_init.connect(count, sender=Allocation)
    try:
        gather(row, AT + 14 * HOUR)
    finally:
        post_init.disconnect(count, sender=Allocation)
    assert Allocation.objects.count() == 14
    assert len(read) < 12


def test_a_claim_that_does_not_say_since_when_is_charged_all_the_same_and_named(row: Workload) -> None:
    held = MirrorObject.objects.get(kind="ResourceClaim")
    del held.body["status"]["allocation"]["allocationTimestamp"]
    held.save()
    gather(row, AT + HOUR)
    made = row.allocations.get()
    assert (made.started_at, attribution(made)) == (AT, Attribution.CLAIM_SEEN)
    assert row.cost_allocated == Decimal("0.42")
    issue = TelemetryIssue.objects.get()
    assert (issue.kind, issue.node, issue.resolved_at) == ("no-start", "gpu-01", None)
    assert "no allocationTimestamp" in issue.message
    held.seen_at = AT + HOUR
    held.save()
    gather(row, AT + 2 * HOUR)
    assert row.allocations.get().started_at == AT, "what was recorded stays"
    MirrorObject.objects.filter(kind="ResourceClaim").update(gone_at=AT + 2 * HOUR)
    gather(row, AT + 3 * HOUR)
    assert not TelemetryIssue.objects.filter(resolved_at=None).exists()


def test_what_is_gone_is_read_until_its_end_is_recorded(row: Workload) -> None:
    objects = MirrorObject.objects.filter(kind__in=["ResourceClaim", "Pod"])
    objects.update(gone_at=AT + HOUR)
    assert list(collecting._claims(row.cluster)) == ["w-0-claim"], "it came and went between two looks"
    gather(row, AT + 2 * HOUR)
    assert (row.cost_hourly, row.cost_allocated) == (None, Decimal("0.42"))
    assert collecting._claims(row.cluster) == {}
    objects.update(gone_at=None)
    assert list(collecting._claims(row.cluster)) == ["w-0-claim"]


def test_a_new_price_counts_from_then_on(row: Workload) -> None:
    Price.objects.create(offer=row.offer, hourly=Decimal(1), currency="EUR", valid_from=AT + HOUR)
    gather(row, AT + 2 * HOUR)
    assert (row.cost_hourly, row.cost_allocated) == (Decimal(1), Decimal("1.42"))


def test_a_claim_whose_tombstone_was_pruned_is_closed(row: Workload) -> None:
    gather(row, AT + HOUR)
    MirrorObject.objects.all().delete()
    gather(row, AT + 3 * HOUR)
    assert Allocation.objects.get().ended_at == AT + 3 * HOUR


def test_costs_and_allocations_over_rest_are_those_of_ones_own_tenants(cast: Cast, row: Workload) -> None:
    gather(row, timezone.now())
    period = "?from=2026-11-20T09:00:00Z&to=2026-11-20T11:00:00Z"
    rosa, otto = Api(cast.rosa).client, Api(cast.otto).client
    found = rosa.get(f"/api/v1/costs{period}&group_by=workload").json()
    assert found["items"] == [
        {"workload": str(row.pk), "gpu_hours": "0.28571429",
         "allocated": {"amount": "0.84", "currency": "EUR"},
         "refunded": {"amount": "0.00", "currency": "EUR"},
         "charged": {"amount": "0.84", "currency": "EUR"},
         "effective": {"amount": "0.00", "currency": "EUR"},
         "waste": {"amount": "0.00", "currency": "EUR"},
         "recoverable": {"amount": "0.00", "currency": "EUR"},
         "inefficiency": {"amount": "0.00", "currency": "EUR"},
         "waste_by_cause": {cause: {"amount": "0.00", "currency": "EUR"} for cause in CAUSES},
         "unknown": {"amount": "0.84", "currency": "EUR"}, "formula": Formula.MAX.label}
    ]  # fmt: skip
    assert found["total"]["allocated"]["amount"] == "0.84"
    assert otto.get(f"/api/v1/costs{period}").json()["items"] == []
    (held,) = rosa.get(f"/api/v1/allocations{period}").json()["items"]
    assert (held["tenant"], held["share"], held["to"]) == ("vision", "1/7", None)
    assert (held["attributed_by"], held["confidence"]) == ("claim", "unknown")
    own = rosa.get(f"/api/v1/workloads/{row.pk}/cost{period}").json()
    assert own["items"][0]["offer"] == cast.offer.slug
    assert otto.get(f"/api/v1/workloads/{row.pk}/cost").status_code == 404


@pytest.mark.parametrize(
    "query",
    ["?from=x", "?group_by=moon", "?from=2026-11-20T09:00:00Z&to=2026-11-20T08:00:00Z", "?workload=1"],
)
def test_a_wrong_period_or_group_is_400(cast: Cast, query: str) -> None:
    answer = Api(cast.rosa).client.get(f"/api/v1/costs{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


@pytest.fixture
def shared(cast: Cast) -> Workload:
    """A notebook whose pod holds two shares of a device plugin since AT."""
    type(cast.offer).objects.filter(pk=cast.offer.pk).update(
        mechanism="device-plugin", resource_name="nvidia.com/gpu.shared", share_denominator=4
    )
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    pod = bodies.ready_pod()
    pod["metadata"]["labels"] = owner_labels(owner="workload", uid=row.pk)
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu.shared": "2"}}}]
    pod["status"]["startTime"] = AT.isoformat()
    tell(row, pod, 1)
    return row


@pytest.mark.parametrize("mechanism", ["device-plugin", "dra"])
def test_shares_end_with_their_pod_though_another_offer_was_asked_for_meanwhile(
    cast: Cast, shared: Workload, mechanism: str
) -> None:
    wide = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    type(wide).objects.filter(pk=wide.pk).update(mechanism=mechanism)
    gather(shared, AT + HOUR)
    Workload.objects.filter(pk=shared.pk).update(offer=wide)
    MirrorObject.objects.filter(kind="Pod").update(gone_at=AT + 2 * HOUR)
    gather(shared, AT + 5 * HOUR)
    held = list(Allocation.objects.all())
    assert [(each.offer, each.ended_at) for each in held] == [(cast.offer, AT + 2 * HOUR)] * 2
    assert shared.cost_allocated == Decimal("1.68")


def test_shares_of_a_device_plugin_are_billed_by_their_pods(cast: Cast, shared: Workload) -> None:
    row = shared
    gather(row, AT + HOUR)
    gather(row, AT + HOUR)

    held = list(Allocation.objects.order_by("device"))
    assert [each.device for each in held] == [f"gpu-01/nvidia.com/gpu.shared#{index}" for index in range(2)]
    assert {(each.share_numerator, each.share_denominator) for each in held} == {(1, 4)}
    assert row.cost_allocated == Decimal("0.84")
    MirrorObject.objects.filter(kind="Pod").update(gone_at=AT + 2 * HOUR)
    gather(row, AT + 5 * HOUR)
    assert {each.ended_at for each in Allocation.objects.all()} == {AT + 2 * HOUR}
