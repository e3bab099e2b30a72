"""A GPU that died: a fact of hardware from its first word on, money back, and a line for the operator."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import MirrorObject
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.selectors import costs, focus_export, months
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation, HardwareFact, TelemetryIssue
from apps.metering.telemetry.rules import xids
from apps.metering.telemetry.rules.xids import XidKind
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.metering.books import AT, HOUR, MINUTE, STEP, Books
from tests.metering.hardware import CUT, WHOLE, device, gpus, node, tell
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
SAYS_79 = dict.fromkeys(("sm_active", "dram_active")) | {"xid": 79}


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


@pytest.fixture
def row(cast: Cast) -> Workload:
    """A notebook; its cluster has a node with one whole GPU."""
    Price.objects.update(valid_from=AT - timedelta(days=40), hourly=Decimal(2))
    found = make_workload(cast.vision, cast.rosa, cast.offer)
    tell(found, node(), WHOLE)
    return found


def health() -> list[tuple[str, datetime, Any]]:
    rows = HardwareFact.objects.filter(kind__in=["unhealthy", "healthy", "gone"]).order_by("pk")
    return [(row.kind, row.at, row.value) for row in rows]


def holds(books: Books, row: Workload, begins: datetime, ends: datetime | None) -> Allocation:
    found = books.hold("GPU-a", begins, ends, row=row)
    Allocation.objects.filter(pk=found.pk).update(device="gpu-01/gpu-0")
    return found


def lines(*, now: datetime) -> costs.CostLine:
    begins = AT - timedelta(days=1)
    (found,) = costs.costs(Allocation.objects.all(), Group.TENANT, begins=begins, ends=now, now=now)
    return found


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (79, XidKind.FATAL), (48, XidKind.FATAL), (95, XidKind.FATAL), (119, XidKind.FATAL),
        (13, XidKind.APPLICATION), (31, XidKind.APPLICATION), (43, XidKind.APPLICATION),
        (45, XidKind.APPLICATION), (94, XidKind.APPLICATION),
        (63, XidKind.INFORMATIONAL), (92, XidKind.INFORMATIONAL), (154, XidKind.INFORMATIONAL),
    ],
)  # fmt: skip
@pytest.mark.django_db(transaction=False)
def test_a_code_is_what_nvidias_catalog_says(code: int, kind: XidKind) -> None:
    assert xids.XIDS[code].kind is kind
    assert bool(xids.XIDS[code].cure) == (kind is XidKind.FATAL)


def test_a_fatal_xid_is_a_fact_from_its_first_sample_on_and_ends_with_0(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT)
    gpu = books.device("GPU-a")
    died, reset = AT + 10 * MINUTE, AT + 30 * MINUTE
    books.see(gpu, books.every(AT, died), xid=0)
    books.see(gpu, books.every(died, died + MINUTE), **SAYS_79)
    collect(row.cluster, now=died + 2 * MINUTE)
    # What it took with it writes over the code; that changes nothing, and neither does silence.
    books.see(gpu, [died + 3 * MINUTE], xid=45)
    for minutes in (4, 18):
        collect(row.cluster, now=died + minutes * MINUTE)
    assert health() == [("unhealthy", died, {"xid": 79})]
    books.see(gpu, [reset], xid=0)
    collect(row.cluster, now=reset + STEP)
    assert health()[1:] == [("healthy", reset + STEP, {})]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 94, 63, 154, 0, None, 9999])
def test_no_other_xid_is_the_gpus(books: Books, row: Workload, code: int | None) -> None:
    books.see(books.device("GPU-a"), [AT], xid=code)
    collect(row.cluster, now=AT + STEP)
    assert (health(), TelemetryIssue.objects.count()) == ([], 0)


def test_a_fatal_xid_of_one_slice_is_the_whole_gpus(books: Books, row: Workload) -> None:
    tell(row, CUT)
    one, other = books.device("GPU-a", "1"), books.device("GPU-a")
    collect(row.cluster, now=AT)
    books.see(one, books.every(AT, AT + MINUTE), xid=95)
    books.see(other, books.every(AT, AT + MINUTE), xid=0)
    collect(row.cluster, now=AT + 2 * MINUTE)
    assert health() == [("unhealthy", AT, {"xid": 95})]


def test_a_dead_gpu_that_vanishes_stays_the_operators_until_it_is_back(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT)
    books.see(books.device("GPU-a"), [AT + MINUTE], **SAYS_79)
    MirrorObject.objects.filter(kind="ResourceSlice").update(gone_at=AT + MINUTE)
    for minutes in (2, 3, 60):
        collect(row.cluster, now=AT + minutes * MINUTE)
    assert [kind for kind, _, _ in health()] == ["unhealthy", "gone"]
    assert TelemetryIssue.objects.get(resolved_at=None).kind == "dead-gpu"


def test_whom_a_dead_gpu_took_along_gets_the_last_hour_back(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT - 3 * HOUR)
    died = AT + 2 * SECOND
    holds(books, row, AT - 2 * HOUR, died)
    books.see(books.device("GPU-a"), [AT + 20 * SECOND], **SAYS_79)
    collect(row.cluster, now=AT + 3 * MINUTE)
    found = lines(now=AT + HOUR)
    assert found.allocated - found.refunded == (found.allocated - Decimal(2)).quantize(found.charged)
    assert found.refunded == Decimal(2)


XID = "gpu.nvidia.com/xid"
OURS: dict[str, bool] = {}
NOT_OURS = {"is_ours": False}


@pytest.mark.parametrize(
    ("key", "value", "effect", "unhealthy"),
    [
        (XID, "45", "None", None), ("example.com/drain", "", "SomeDay", None),
        (XID, "13", "NoSchedule", NOT_OURS), (XID, "999", "NoExecute", NOT_OURS),
        ("example.com/drain", "", "NoSchedule", NOT_OURS), ("example.com/drain", "", "NoExecute", OURS),
        (XID, "48", "NoSchedule", OURS), ("gpu.nvidia.com/gpu-lost", "", "NoSchedule", OURS),
    ],
)  # fmt: skip
def test_a_taint_gives_back_only_where_it_has_an_effect_and_the_platform_answers_for_it(
    cast: Cast,
    books: Books,
    row: Workload,
    key: str,
    value: str,
    effect: str,
    unhealthy: dict[str, bool] | None,
) -> None:
    """RULE: whose own program made the XID pays; what is for information changes nothing."""
    collect(row.cluster, now=AT - HOUR)
    holds(books, row, AT - HOUR, AT + 2 * MINUTE)
    tainted = device("gpu-0", "GPU-a") | {"taints": [{"key": key, "value": value, "effect": effect}]}
    tell(row, gpus(tainted, generation=2))
    for minutes in (0, 5):
        collect(row.cluster, now=AT + minutes * MINUTE)
    assert [about for _, _, about in health()] == ([] if unhealthy is None else [unhealthy])
    assert (lines(now=AT + HOUR).refunded > 0) is (unhealthy == OURS)
    (published,) = inventory.nodes_for(as_actor(cast.petra))
    assert published.free == (unhealthy is None)


def test_who_is_put_onto_a_dead_gpu_gets_it_back_too(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT - HOUR)
    books.see(books.device("GPU-a"), books.every(AT, AT + 5 * MINUTE), **SAYS_79)
    collect(row.cluster, now=AT + MINUTE)
    holds(books, row, AT + 2 * MINUTE, AT + 4 * MINUTE)
    late = AT + timedelta(days=2)
    holds(books, row, late, late + MINUTE)
    found = lines(now=late + HOUR)
    assert (found.charged, found.refunded > 0) == (Decimal(0), True)


def test_who_holds_on_to_a_dead_gpu_pays_nothing_from_then_on(
    cast: Cast, books: Books, row: Workload
) -> None:
    """Nobody told them, and a program that hangs ends nothing: bill, day and workload say the same."""
    collect(row.cluster, now=AT - 4 * HOUR)
    books.see(books.device("GPU-a"), [AT + MINUTE], **SAYS_79)
    collect(row.cluster, now=AT + 2 * MINUTE)
    held = holds(books, row, AT - 3 * HOUR, None)
    assert lines(now=AT + 5 * HOUR).refunded == 0, "it is told once it is over"
    Allocation.objects.filter(pk=held.pk).update(ended_at=AT + 6 * HOUR)
    died = HardwareFact.objects.get(kind="unhealthy").at
    found, now = lines(now=AT + 12 * HOUR), AT + 12 * HOUR
    assert float(found.charged) == pytest.approx(2 * ((died - AT + 3 * HOUR) / HOUR), abs=1e-7)
    assert found.refunded == found.allocated - found.charged > 11
    pricing_run.price_workloads([row.pk], now=now)
    row.refresh_from_db()
    assert row.cost_charged == found.charged
    month = months.month_of(cast.vision, AT.date().replace(day=1), now=now)
    assert abs(month.total - found.charged) < Decimal("0.01")
    text = focus_export.text_of(month, now=now)
    assert focus_export.total_of(text) == month.total


def test_who_holds_on_until_a_dead_gpu_is_reset_and_goes_on_pays(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT - 4 * HOUR)
    holds(books, row, AT - 3 * HOUR, AT + 6 * HOUR)
    gpu = books.device("GPU-a")
    books.see(gpu, [AT], **SAYS_79)
    collect(row.cluster, now=AT + MINUTE)
    books.see(gpu, [AT + HOUR], xid=0)
    collect(row.cluster, now=AT + HOUR + MINUTE)
    assert lines(now=AT + 12 * HOUR).refunded == 0


def test_an_hour_that_is_given_back_begins_in_the_period_before(books: Books, row: Workload) -> None:
    """Periods that meet sum to the whole, also where the GPU died after the first of them."""
    collect(row.cluster, now=AT - 4 * HOUR)
    died = AT + 10 * MINUTE
    holds(books, row, AT - 3 * HOUR, died)
    books.see(books.device("GPU-a"), [died], **SAYS_79)
    collect(row.cluster, now=died + MINUTE)

    def refunded(begins: datetime, ends: datetime) -> Decimal:
        rows = Allocation.objects.all()
        found = costs.costs(rows, Group.TENANT, begins=begins, ends=ends, now=AT + DAY)
        return sum((each.refunded for each in found), Decimal(0))

    parts = [refunded(AT - DAY, AT), refunded(AT, AT + DAY)]
    assert sum(parts) == pytest.approx(refunded(AT - DAY, AT + DAY), abs=Decimal("1e-7"))
    assert parts[0] > parts[1] > 0


def test_who_came_after_the_reset_pays(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT - HOUR)
    gpu = books.device("GPU-a")
    books.see(gpu, [AT], **SAYS_79)
    collect(row.cluster, now=AT + MINUTE)
    books.see(gpu, [AT + 2 * MINUTE], xid=0)
    collect(row.cluster, now=AT + 3 * MINUTE)
    holds(books, row, AT + 5 * MINUTE, AT + 9 * MINUTE)
    assert lines(now=AT + HOUR).refunded == 0


def test_the_operator_reads_which_gpu_where_and_what_to_do(cast: Cast, books: Books, row: Workload) -> None:
    now = timezone.now().replace(microsecond=0)
    gpu = books.device("GPU-a")
    gpu.__class__.objects.update(last_seen_at=now, node="gpu-01")
    books.see(gpu, [now - STEP], **SAYS_79)
    collect(row.cluster, now=now)
    client = Client()
    client.force_login(cast.petra)
    shown = client.get("/console/").content.decode()
    needs = shown[shown.index("Needs you") : shown.index("</section>", shown.index("Needs you"))]
    assert "Dead GPU on gpu-01" in needs
    assert "GPU-a: XID 79, GPU has fallen off the bus" in needs
    assert "restart the machine" in needs
    (device,) = Api(cast.petra).client.get("/api/v1/devices").json()["items"]
    assert device["health"] == "unhealthy"
    assert "XID 79, GPU has fallen off the bus" in client.get("/console/nodes/gpu-01/").content.decode()


def test_what_was_priced_before_the_fault_was_known_is_priced_again(books: Books, row: Workload) -> None:
    collect(row.cluster, now=AT - HOUR)
    holds(books, row, AT - HOUR, AT)
    assert collect(row.cluster, now=AT + 15 * SECOND).workloads == set()
    books.see(books.device("GPU-a"), [AT + 20 * SECOND], **SAYS_79)
    touched = collect(row.cluster, now=AT + 45 * SECOND).changed
    assert touched == {row.pk}
    pricing_run.price_workloads(touched, now=AT + 45 * SECOND)
    row.refresh_from_db()
    assert row.cost_refunded == row.cost_allocated > 0
    assert collect(row.cluster, now=AT + HOUR).workloads == set()
