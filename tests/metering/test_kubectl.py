"""What a tenant holds by kubectl is charged as the offer it is like: a line of its own, in budgets."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.selectors import charges, costs, line_items, months
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run, statements
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, TelemetryIssue
from apps.metering.specs import LineKind
from apps.quotas.models import Budget, Offer, Price, Spend
from apps.tenants.models import Tenant
from apps.web.streams import events
from apps.workloads.models import Workload
from portal.pages.team.usage import bill
from tests.conftest import Cast, as_actor
from tests.factories import make_offer, make_workload
from tests.metering.books import AT, HOUR, MINUTE
from tests.metering.hardware import CUT, WHOLE, node, tell
from tests.metering.kubectl_scene import MODEL, claimed, ends, priced, whole
from tests.workloads import bodies
from tests.workloads.rest import Api

__all__ = ["whole"]

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOVEMBER = date(2026, 11, 1)
CLOSING = AT + timedelta(days=20)


def sees(cast: Cast, *seen: dict[str, Any]) -> None:
    tell(make_workload(cast.vision, cast.rosa, cast.offer, slug=f"any-{MirrorObject.objects.count()}"), *seen)


def lines(cast: Cast, until: Any) -> list[tuple[str, Decimal, Decimal]]:
    found = months.month_of(cast.vision, NOVEMBER, now=until).rows
    return [(row.line.description, row.line.quantity, row.line.amount) for row in found]


def test_it_is_charged_as_the_offer_it_is_like_from_when_it_was_seen_until_it_was_gone(
    cast: Cast, whole: Offer
) -> None:
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    for minutes in (0, 5, 10):
        collect(cast.vision.cluster, now=AT + minutes * MINUTE)
    row = Allocation.objects.get(workload=None)
    assert (row.tenant, row.offer, row.gpu, row.started_at, row.ended_at) == (
        cast.vision, whole, "GPU-a", AT, None,
    )  # fmt: skip
    ends()
    collect(cast.vision.cluster, now=AT + 2 * HOUR)
    collect(cast.vision.cluster, now=AT + 3 * HOUR)
    assert Allocation.objects.get(workload=None).ended_at == AT + 2 * HOUR
    assert lines(cast, AT + 5 * HOUR) == [("Made with kubectl, H100 whole", Decimal(2), Decimal("6.66"))]
    assert not TelemetryIssue.objects.exists()


def test_a_namespace_that_was_given_back_costs_its_former_tenant_nothing(cast: Cast, whole: Offer) -> None:
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=AT)
    gone = {"is_namespace_adopted": True, "deleting_at": AT + HOUR, "deleted_at": AT + HOUR}
    Tenant.objects.filter(pk=cast.vision.pk).update(**gone)
    collect(cast.vision.cluster, now=AT + 2 * HOUR)
    assert Allocation.objects.get(workload=None).ended_at == AT + 2 * HOUR


def test_it_is_charged_for_the_very_time_that_the_ledger_gives_the_tenant(cast: Cast, whole: Offer) -> None:
    sees(cast, node(), CUT, claimed(cast, "gpu-01/gpu-0-mig-1"))
    collect(cast.vision.cluster, now=AT + timedelta(seconds=17, microseconds=3))
    sees(cast, claimed(cast, "gpu-01/gpu-0-mig-2", uid="r2"))
    collect(cast.vision.cluster, now=AT + timedelta(seconds=999, microseconds=7))
    ends()
    collect(cast.vision.cluster, now=AT + HOUR + timedelta(microseconds=1))
    ends("r2")
    collect(cast.vision.cluster, now=AT + 2 * HOUR + timedelta(seconds=1, microseconds=11))
    rollup.roll(cast.vision.cluster, now=AT + 3 * HOUR)
    held = Bucket.objects.filter(level=300, account="tenant", tenant=cast.vision)
    shares = sum((Fraction(row.share_us, row.denominator) for row in held), Fraction(0))
    exact = charges.charges(
        Allocation.objects.filter(workload=None), AT - HOUR, AT + 4 * HOUR, now=AT + 4 * HOUR
    )
    assert shares == sum(found.seconds for found in exact.values()) * 1_000_000
    assert shares > 0


def test_lines_sum_to_the_cent_next_to_other_work_and_the_statement_stays(cast: Cast, whole: Offer) -> None:
    slice_ = priced(make_offer(whole.flavor, "h100-3g", profile="3g.40gb"), "1.37777777")
    sees(
        cast, node(), CUT, claimed(cast, "gpu-01/gpu-0-mig-1"), claimed(cast, "gpu-01/gpu-0-mig-2", uid="r2")
    )
    collect(cast.vision.cluster, now=AT)
    ends("r2")
    collect(cast.vision.cluster, now=AT + 77 * MINUTE)
    ends()
    collect(cast.vision.cluster, now=AT + 1000 * MINUTE)
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="other")
    priced(cast.offer, "2")
    Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid="c", node="n1", device="n1/x",
        share_numerator=1, share_denominator=7, started_at=AT, ended_at=AT + 61 * MINUTE,
    )  # fmt: skip
    made = statements.close_month(actor=as_actor(cast.petra), tenant=cast.vision, month=NOVEMBER, now=CLOSING)
    exact = sum((each.charged for each in line_items.charges_of(
        cast.vision, AT - timedelta(days=19), CLOSING, now=CLOSING
    )), Fraction(0))  # fmt: skip
    by_hand = Fraction("1.37777777") * 1077 / 60 + 2 * Fraction(61, 60)
    assert exact == by_hand
    assert made.total == round(by_hand * 100) / Decimal(100)
    own = made.lines.get(workload=None)
    assert own.kind == LineKind.GPU
    assert own.offer == slice_
    assert own.effective == own.waste == 0
    assert own.unknown == own.amount
    assert made.effective + made.waste + made.unknown + made.other == made.total
    shown = bill.shown(cast.vision, NOVEMBER, now=CLOSING)
    assert shown.adds_up
    assert statements.corrections_of(made, now=CLOSING + HOUR) == []
    days = line_items.daily(
        cast.vision,
        line_items.holdings_of_month([cast.vision], NOVEMBER, now=CLOSING).known,
        AT - timedelta(hours=9),
        AT + timedelta(hours=39),
    )
    assert sum(days) == exact


def test_it_ends_where_a_workload_of_ours_begins_to_hold_its_device(cast: Cast, whole: Offer) -> None:
    """RULE: that it is over is seen at the next look; bill and ledger end it where the next holder begins."""
    ours, theirs = "gpu-01/gpu-0-mig-1", "gpu-01/gpu-0-mig-2"
    sees(cast, node(), CUT, claimed(cast, ours), claimed(cast, theirs, uid="r2"))
    collect(cast.vision.cluster, now=AT)
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="next")
    ends()
    ends("r2")
    tell(row, *held_since(AT + MINUTE, ours, row))
    sees(cast, claimed(cast, theirs, uid="r3"))
    collect(cast.vision.cluster, now=AT + 5 * MINUTE)
    ended = Allocation.objects.filter(workload=None)
    assert {row.claim_uid: row.ended_at for row in ended} == {
        "r1": AT + MINUTE, "r2": AT + 5 * MINUTE, "r3": None,
    }  # fmt: skip
    rollup.roll(cast.vision.cluster, now=AT + HOUR)
    assert verifying.verify(cast.vision.cluster).flaws == []


def held_since(at: datetime, device: str, row: Workload) -> list[dict[str, Any]]:
    """A pod of a workload and its claim of one device."""
    pod, claim = bodies.ready_pod(uid="p-next"), bodies.claim(device, owner="p-next", uid="c-next")
    pod["metadata"] |= {"name": "next", "labels": owner_labels(owner="workload", uid=row.pk)}
    claim["status"]["allocation"]["allocationTimestamp"] = at.isoformat()
    return [pod, claim]


def test_what_has_no_price_is_a_line_that_says_so_and_an_issue_with_what_to_do(cast: Cast) -> None:
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=AT)
    issue = TelemetryIssue.objects.get()
    assert (issue.kind, issue.node) == ("no-price", "gpu-01")
    assert "gpu-01/gpu-0 of vision" in issue.message
    assert "adopt the fleet's offers" in issue.message
    assert lines(cast, AT + HOUR) == [("Made with kubectl, like no offer: no price", Decimal(1), Decimal(0))]
    flavor = cast.offer.flavor
    flavor.model, flavor.node_labels = MODEL, {}
    flavor.save()
    offer = make_offer(flavor, "h100-whole", profile="")
    Price.objects.filter(offer=offer).delete()
    collect(cast.vision.cluster, now=AT + HOUR)
    issue.refresh_from_db()
    assert "Set a price of h100-whole" in issue.message
    assert issue.resolved_at is None
    Price.objects.create(offer=offer, hourly=Decimal(4), currency="EUR", valid_from=AT + 2 * HOUR)
    collect(cast.vision.cluster, now=AT + 2 * HOUR)
    issue.refresh_from_db()
    assert issue.resolved_at == AT + 2 * HOUR
    # What was held before there was an offer, and before it had a price, stays without one.
    assert lines(cast, AT + 3 * HOUR) == [
        ("Made with kubectl, H100 whole", Decimal(2), Decimal(4)),
        ("Made with kubectl, like no offer: no price", Decimal(1), Decimal(0)),
    ]


def test_it_counts_in_the_budget_and_in_costs_by_tenant_offer_and_department(
    cast: Cast, whole: Offer
) -> None:
    Budget.objects.create(tenant=cast.vision, unit="money", hard_limit=900, created_by="petra")
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=AT)
    pricing_run.bill([], now=AT + 2 * HOUR)
    spend = Spend.objects.get(tenant=cast.vision)
    assert (spend.money, spend.gpu_hours) == (Decimal("6.66"), Decimal(2))
    period = {"begins": AT, "ends": AT + HOUR, "now": AT + 2 * HOUR}
    rows = Allocation.objects.all()
    for group, key in ((Group.TENANT, "vision"), (Group.OFFER, "h100-whole"), (Group.DEPARTMENT, "research"),
                       (Group.WORKLOAD, "")):  # fmt: skip
        (line,) = costs.costs(rows, group, **period)
        assert (line.key, line.charged, line.unknown) == (key, Decimal("3.33"), Decimal("3.33"))
    query = f"?from={AT:%Y-%m-%dT%H:%M:%SZ}&to={AT + HOUR:%Y-%m-%dT%H:%M:%SZ}"
    (item,) = Api(cast.rosa).client.get(f"/api/v1/costs{query}&group_by=workload").json()["items"]
    assert (item["workload"], item["charged"]["amount"]) == (None, "3.33")
    assert Api(cast.otto).client.get(f"/api/v1/costs{query}").json()["items"] == []


def test_a_fault_of_the_platform_gives_the_last_hour_back(cast: Cast, whole: Offer) -> None:
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=AT)
    sees(cast, node(ready=False))
    collect(cast.vision.cluster, now=AT + 3 * HOUR)
    ends()
    collect(cast.vision.cluster, now=AT + 3 * HOUR + 5 * MINUTE)
    first, refund = (amount for _, _, amount in lines(cast, AT + 5 * HOUR))
    assert (first, refund) == (Decimal("10.27"), Decimal("-3.33"))


def test_what_nobody_uses_yet_and_what_is_no_tenants_is_not_charged(cast: Cast, whole: Offer) -> None:
    claim = claimed(cast, "gpu-01/gpu-0")
    claim["status"]["reservedFor"] = []
    sees(cast, node(), WHOLE, claim)
    collect(cast.vision.cluster, now=AT)
    stranger = claimed(cast, "gpu-01/gpu-0", uid="r3")
    stranger["metadata"]["namespace"] = "kube-system"
    ends()
    sees(cast, stranger)
    collect(cast.vision.cluster, now=AT + HOUR)
    assert not Allocation.objects.filter(workload=None).exists()
    assert not TelemetryIssue.objects.exists()


def test_the_open_pages_of_its_team_are_told(
    cast: Cast, whole: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(events, "publish", lambda topics, **_: told.extend(topics))
    sees(cast, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=AT)
    told.clear()
    rollup.tell_pages(rollup.roll_up(now=AT + HOUR))
    assert told == ["console", "tenant:vision"]
