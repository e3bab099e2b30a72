"""Several claims on one device (consumable capacity): shares of it in ledger and bill, or refused by name."""

import csv
import io
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.selectors import costs, focus_export, months
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run, statements
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, Device, Sample, TelemetryIssue
from apps.metering.telemetry.services import partitions
from apps.quotas.models import Offer
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast, SignedIn, as_actor
from tests.factories import make_workload
from tests.metering.books import AT, HOUR, MINUTE
from tests.metering.hardware import device, gpus, node, tell
from tests.metering.kubectl_scene import claimed, ends, whole
from tests.workloads import bodies
from tests.workloads.rest import Api

__all__ = ["whole"]

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
GPU = "gpu-01/gpu-0"
NOVEMBER = date(2026, 11, 1)
CLOSING = AT + timedelta(days=20)


def published(memory: str = "90Gi") -> dict[str, Any]:
    """A GPU that several claims may have."""
    about = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}}
    return gpus({**device("gpu-0", "GPU-a"), **about})


def in_shares(claim: dict[str, Any], *memories: str | None) -> dict[str, Any]:
    """The claim with a share of the device for each of these; None consumes no memory."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    claim["status"]["allocation"]["devices"]["results"] = [
        {**result, "shareID": f"{claim['metadata']['uid']}-{number}"}
        | ({"consumedCapacity": {"memory": memory}} if memory else {})
        for number, memory in enumerate(memories)
    ]
    return claim


def work(cast: Cast, offer: Offer, name: str, *memories: str | None) -> Workload:
    """A workload that has these shares of the device from AT on."""
    row = make_workload(cast.vision, cast.rosa, offer, slug=name)
    pod, claim = bodies.ready_pod(uid=f"p-{name}"), bodies.claim(GPU, owner=f"p-{name}", uid=f"c-{name}")
    pod["metadata"] |= {"name": name, "labels": owner_labels(owner="workload", uid=row.pk)}
    claim["metadata"]["name"] = name
    claim["status"]["allocation"]["allocationTimestamp"] = AT.isoformat()
    tell(row, pod, in_shares(claim, *memories))
    return row


@pytest.fixture
def thirds(cast: Cast, whole: Offer) -> list[Workload]:
    """Three workloads that have a third of a GPU each, one of them in two shares."""
    rows = [
        work(cast, whole, "a", "30Gi"),
        work(cast, whole, "b", "10Gi", "20Gi"),
        work(cast, whole, "c", "30Gi"),
    ]
    tell(rows[0], node(), published())
    return rows


def ledger(cast: Cast) -> dict[str, Fraction]:
    """GPU-hours by account and reason; the ledger must agree with its facts."""
    rollup.roll(cast.vision.cluster, now=AT + 3 * HOUR)
    assert verifying.verify(cast.vision.cluster).flaws == []
    found: dict[str, Fraction] = {}
    for row in Bucket.objects.filter(level=300, starts_at__gte=AT, starts_at__lt=AT + 2 * HOUR):
        name, hours = row.reason or row.account, Fraction(row.share_us, row.denominator) / 3_600_000_000
        found[name] = found.get(name, Fraction(0)) + hours
    return found


def test_three_claims_on_one_device_are_billed_their_parts_of_it(cast: Cast, thirds: list[Workload]) -> None:
    """RULE: the three together pay for one device, at its own price."""
    cluster = cast.vision.cluster
    pricing_run.price_workloads(collect(cluster, now=AT + HOUR).workloads, now=AT + HOUR)
    thirds[0].refresh_from_db()
    assert (thirds[0].cost_hourly, thirds[0].cost_allocated) == (Decimal("1.11"), Decimal("1.11"))
    MirrorObject.objects.filter(kind="ResourceClaim").update(gone_at=AT + 2 * HOUR)
    collect(cluster, now=AT + 2 * HOUR)
    lines = [row.line for row in months.month_of(cast.vision, NOVEMBER, now=AT + 5 * HOUR).rows]
    assert [(each.description, each.amount, each.unit_price) for each in lines] == [
        (f"{name}, 1/3 of H100 whole", Decimal("2.22"), Decimal("3.33")) for name in "abc"
    ]
    assert {each.quantity for each in lines} == {Decimal("0.66666667")}
    (cost,) = costs.costs(
        Allocation.objects.all(), Group.OFFER, begins=AT, ends=AT + 2 * HOUR, now=AT + 5 * HOUR
    )
    assert (cost.charged, cost.unknown, cost.gpu_hours) == (Decimal("6.66"), Decimal("6.66"), Decimal(2))
    assert ledger(cast) == {"tenant": 2}


def test_a_statement_and_its_file_tell_a_share_and_nothing_is_put_right_later(
    cast: Cast, thirds: list[Workload]
) -> None:
    cluster = cast.vision.cluster
    collect(cluster, now=AT)
    MirrorObject.objects.filter(kind="ResourceClaim").update(gone_at=AT + 2 * HOUR)
    collect(cluster, now=AT + 2 * HOUR)
    made = statements.close_month(actor=as_actor(cast.petra), tenant=cast.vision, month=NOVEMBER, now=CLOSING)
    assert (made.total, made.unknown) == (Decimal("6.66"), Decimal("6.66"))
    assert statements.corrections_of(made, now=CLOSING + HOUR) == []
    text = focus_export.text_of(months.month_of_statement(made), now=CLOSING)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["ChargeDescription"] for row in rows} == {f"{name}, 1/3 of H100 whole" for name in "abc"}
    for row in rows:
        assert Decimal(row["ListUnitPrice"]) == Decimal("3.33")
        assert Decimal(row["PricingQuantity"]) == Decimal(row["x_GpuHours"]) == Decimal("0.66666667")


def test_holders_by_kubectl_have_their_parts_and_the_rest_is_free(cast: Cast, whole: Offer) -> None:
    row = work(cast, whole, "ours", "45Gi")
    theirs = in_shares(claimed(cast, GPU, uid="r1"), "15Gi")
    strange = in_shares(claimed(cast, GPU, uid="r2"), "15Gi")
    strange["metadata"]["namespace"] = "kube-system"
    waits = in_shares(claimed(cast, GPU, uid="r3"), "9Gi")
    waits["status"]["reservedFor"] = []
    tell(row, node(), published(), theirs, strange, waits)
    collect(cast.vision.cluster, now=AT)
    made = Allocation.objects.get(workload=None)
    assert (made.part, made.offer, made.gpu, made.device_uuid) == (Fraction(1, 6), whole, "GPU-a", "")
    assert not TelemetryIssue.objects.exists()
    assert ledger(cast) == {
        "tenant": 2 * Fraction(2, 3), "unattributed": 2 * Fraction(1, 6),
        "reserved": 2 * Fraction(1, 10), "free": 2 * Fraction(1, 15),
    }  # fmt: skip
    found = months.month_of(cast.vision, NOVEMBER, now=AT + 2 * HOUR).rows
    assert [(each.line.description, each.line.amount) for each in found] == [
        ("Made with kubectl, 1/6 of H100 whole", Decimal("1.11")),
        ("ours, 1/2 of H100 whole", Decimal("3.33")),
    ]


def test_a_share_that_nothing_says_the_size_of_is_nobodys_and_named(cast: Cast, whole: Offer) -> None:
    """RULE: known parts are held and paid; what they leave is held by whom nobody knows."""
    row = work(cast, whole, "known", "30Gi")
    work(cast, whole, "unknown", None)
    tell(row, node(), published(), in_shares(claimed(cast, GPU), None))
    collect(cast.vision.cluster, now=AT)
    assert Allocation.objects.get().workload == row
    issue = TelemetryIssue.objects.get()
    assert (issue.kind, issue.node) == ("in-shares", "gpu-01")
    assert f"{GPU} by ns/unknown, {cast.vision.object_name}/r1. " in issue.message
    assert "consumes no memory of the device" in issue.message
    assert ledger(cast) == {"tenant": Fraction(2, 3), "unattributed": Fraction(4, 3)}
    MirrorObject.objects.filter(uid="c-unknown").update(gone_at=AT + 3 * HOUR)
    ends()
    collect(cast.vision.cluster, now=AT + 3 * HOUR)
    issue.refresh_from_db()
    assert issue.resolved_at == AT + 3 * HOUR
    rollup.roll(cast.vision.cluster, now=AT + 5 * HOUR)
    assert not Bucket.objects.filter(account="unattributed", starts_at__gte=AT + 4 * HOUR).exists()


def test_the_end_of_a_share_is_its_own_and_not_the_start_of_another(cast: Cast, whole: Offer) -> None:
    """RULE: a device in shares has several holders, so that the next one ends nobody's time."""
    row = make_workload(cast.vision, cast.rosa, whole, slug="first")
    tell(row, node(), published(), in_shares(claimed(cast, GPU), "30Gi"))
    collect(cast.vision.cluster, now=AT - MINUTE)
    ends()
    work(cast, whole, "next", "30Gi")
    collect(cast.vision.cluster, now=AT + 5 * MINUTE)
    assert Allocation.objects.get(workload=None).ended_at == AT + 5 * MINUTE
    assert Allocation.objects.get(workload__slug="next").started_at == AT


def test_a_late_end_of_a_whole_device_moves_no_shares_that_came_after(cast: Cast, whole: Offer) -> None:
    """RULE: only who holds a device alone ends where the next holder begins."""
    old = work(cast, whole, "old", "90Gi")
    claim = MirrorObject.objects.get(uid="c-old")
    del claim.body["status"]["allocation"]["devices"]["results"][0]["shareID"]
    claim.save()
    tell(old, node(), published())
    collect(cast.vision.cluster, now=AT)
    work(cast, whole, "a", "30Gi")
    work(cast, whole, "b", "30Gi")
    for uid, minutes in (("c-old", 1), ("c-a", 10)):
        MirrorObject.objects.filter(uid=uid).update(gone_at=AT + minutes * MINUTE)
    collect(cast.vision.cluster, now=AT + 15 * MINUTE)
    ended = dict(Allocation.objects.values_list("workload__slug", "ended_at"))
    assert ended == {"old": AT + MINUTE, "a": AT + 10 * MINUTE, "b": None}


def test_pages_say_a_share_where_a_holder_reads_what_is_its(
    cast: Cast, thirds: list[Workload], signed_in: SignedIn
) -> None:
    Workload.objects.update(phase=Phase.RUNNING, spec={**thirds[0].spec, "max_run_seconds": 3600})
    collect(cast.vision.cluster, now=AT)
    client = signed_in(cast.rosa)
    for url in (f"/t/vision/workloads/{thirds[0].pk}/", f"/t/vision/workloads/{thirds[0].pk}/allocations/",
                "/t/vision/allocations/?month=2026-11"):  # fmt: skip
        assert "1/3 of H100 whole" in client.get(url).content.decode()


def test_what_a_device_in_shares_does_is_no_holders_own(cast: Cast, thirds: list[Workload]) -> None:
    """RULE: as with time-slicing: the counters are the device's, also of its only holder."""
    MirrorObject.objects.filter(uid__in=["c-b", "c-c"]).delete()
    gpu = Device.objects.create(
        cluster=cast.vision.cluster, node="gpu-01", uuid="GPU-a", model="NVIDIA H100 80GB HBM3",
        first_seen_at=AT, last_seen_at=AT + HOUR,
    )  # fmt: skip
    partitions.ensure({int(AT.timestamp()) // 86_400})
    Sample.objects.create(device=gpu, ts=AT + MINUTE, seconds=60, sm_active=900_000, dram_active=500_000)
    collect(cast.vision.cluster, now=AT)
    assert ledger(cast) == {"tenant": Fraction(2, 3), "free": Fraction(4, 3)}
    assert not Bucket.objects.exclude(seen_us=0).exists()
    period = f"?from={AT:%Y-%m-%dT%H:%M:%SZ}&to={AT + HOUR:%Y-%m-%dT%H:%M:%SZ}"
    (line,) = Api(cast.rosa).client.get(f"/api/v1/allocations{period}").json()["items"]
    assert (line["share"], line["confidence"], line["device"]) == ("1/3", "shared-split", GPU)
