"""What last month would have cost by a new price: told before it is set, and nothing is rewritten."""

import html as entities
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.utils import timezone

from apps.metering.billing.rules.rounding import rounded
from apps.metering.billing.selectors import months, repricing
from apps.metering.models import Allocation
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor, client_of
from tests.factories import make_workload, notebook_body
from tests.metering.priced_scene import held, preempt, price
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOUR, DAY, MICROSECOND = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
OCTOBER, AT, NOW = date(2026, 10, 1), datetime(2026, 10, 20, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def used(cast: Cast) -> None:
    """At 2 an hour: vision 10 h, an hour of them given back, and 3 h by kubectl; speech 4 h, 1 in October."""
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    held(row, AT, AT + 10 * HOUR)
    preempt(row, AT + 10 * HOUR)
    Allocation.objects.create(
        origin="kubectl",
        cluster=row.cluster, tenant=cast.vision, offer=cast.offer, claim_uid="r1", device="n1/g", gpu="GPU-1",
        node="n1", share_numerator=1, share_denominator=7, started_at=AT, ended_at=AT + 3 * HOUR,
    )  # fmt: skip
    other = make_workload(cast.speech, cast.leon, cast.offer, slug="other")
    held(other, datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 11, 1, 3, tzinfo=UTC), "b")


def by(cast: Cast, new: Listed) -> dict[str, tuple[Decimal, Decimal]]:
    found = repricing.by_price(cast.offer, new, OCTOBER, now=NOW)
    return {each.tenant.slug: (each.before, each.after) for each in found}


def test_a_months_use_is_priced_anew_and_the_book_stays(cast: Cast, used: None) -> None:
    bill = months.month_of(cast.vision, OCTOBER, now=NOW).total
    told = by(cast, Listed(Decimal("2.5"), NOW))
    assert told == {"vision": (Decimal(24), Decimal(30)), "speech": (Decimal(2), Decimal("2.5"))}
    assert told["vision"][0] == bill == months.month_of(cast.vision, OCTOBER, now=NOW).total
    assert Price.objects.filter(offer=cast.offer).count() == 1


def test_a_price_for_one_tenant_or_one_capacity_moves_only_what_it_is_for(cast: Cast, used: None) -> None:
    own = Listed(Decimal(1), NOW, tenant=cast.vision.pk)
    assert by(cast, own) == {"vision": (Decimal(24), Decimal(12)), "speech": (Decimal(2), Decimal(2))}
    spot = Listed(Decimal(1), NOW, capacity="spot")
    assert by(cast, spot) == {"vision": (Decimal(24), Decimal(24)), "speech": (Decimal(2), Decimal(2))}
    units = Listed(Decimal(2), NOW, least_seconds=7 * 3600)
    # Whole units of seven hours: what was given back of the run takes its last unit with it; 7 h by kubectl.
    assert by(cast, units)["vision"] == (Decimal(24), Decimal(9 * 2 + 7 * 2))


def test_what_nobody_used_has_no_effect(cast: Cast) -> None:
    assert by(cast, Listed(Decimal(1), NOW)) == {}


def test_where_nobody_held_anything_last_month_the_present_one_so_far_is_told(cast: Cast) -> None:
    """As on a new installation."""
    now = timezone.now()
    this = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Price.objects.update(valid_from=this - 90 * DAY, hourly=Decimal(2))
    begins = max(this, now - 10 * HOUR)
    held(make_workload(cast.vision, cast.rosa, cast.offer), begins, None)
    told = repricing.foretold(as_actor(cast.petra), cast.offer, Listed(Decimal(4), now), now=now)
    assert (told.month, told.is_so_far) == (this.date(), True)
    assert told.after == pytest.approx(2 * told.before, abs=Decimal("0.02"))
    assert told.before == rounded(Fraction((now - begins) // MICROSECOND * 2, 3_600_000_000))
    answer = client_of(cast.petra).post(
        f"/console/offers/{cast.offer.slug}/prices/", {"hourly": "4", "preview": "yes"}
    )
    shown = " ".join(entities.unescape(answer.content.decode()).split())
    assert f"By this price, {this:%B %Y} so far would have cost" in shown


def test_the_page_tells_the_effect_and_sets_the_price_only_then(cast: Cast) -> None:
    this = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Price.objects.update(valid_from=this - 90 * DAY, hourly=Decimal(2))
    held(make_workload(cast.vision, cast.rosa, cast.offer), this - 5 * DAY, this - 5 * DAY + 10 * HOUR)
    address, client = f"/console/offers/{cast.offer.slug}/prices/", client_of(cast.petra)
    assert ">See the effect<" in client.get(address).content.decode()
    answer = client.post(address, {"hourly": "2.50", "preview": "yes"})
    shown = " ".join(entities.unescape(answer.content.decode()).split())
    assert answer.status_code == 200
    assert f"By this price, {this - DAY:%B %Y} would have cost 25.00 EUR instead of 20.00" in shown
    assert '<td data-label="Difference" class="figure">5.00</td>' in shown
    assert ">Set price<" in shown
    assert Price.objects.filter(offer=cast.offer).count() == 1
    wrong = client.post(address, {"hourly": "1", "valid_from": "2020-01-01T00:00", "preview": "yes"})
    assert wrong.status_code == 422
    assert "A price must start now or later." in wrong.content.decode()
    assert client.post(address, {"hourly": "2.50"}).status_code == 303
    assert Price.objects.filter(offer=cast.offer).count() == 2
    assert client_of(cast.ann).post(address, {"hourly": "1", "preview": "yes"}).status_code == 403
    assert client_of(cast.leon).post(address, {"hourly": "1", "preview": "yes"}).status_code == 404


@pytest.fixture
def beside(cast: Cast) -> datetime:
    """For 10 h of last month vision asked for 2 cores, 16 GiB and a disk of 100 GiB, speech for 4 cores for
    5 h on spot; a core costs 0.04, on spot 0.01 from this month on, and storage nothing yet.
    """
    this = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    disk = {"name": "data", "size": "100Gi", "mount_path": "/data"}
    for tenant, owner, hours, cpu, capacity, volumes in (
        (cast.vision, cast.rosa, 10, "2", "", [disk]), (cast.speech, cast.leon, 5, "4", "spot", []),
    ):  # fmt: skip
        row = make_workload(tenant, owner, cast.offer, slug=f"{tenant.slug}-nb")
        Workload.objects.filter(pk=row.pk).update(
            spec=notebook_body(cast.offer.slug, cpu=cpu, memory="16Gi", volumes=volumes)
        )
        held(row, this - 5 * DAY, this - 5 * DAY + hours * HOUR, tenant.slug, capacity=capacity)
    for priced, hourly in (("cpu", "0.04"), ("memory", "0.005")):
        price(None, hourly, this - 90 * DAY, resource=priced)
    price(None, "0.01", this, resource="cpu", capacity="spot")
    return this


@pytest.mark.parametrize(
    ("resource", "hourly", "capacity", "tenant", "expected"),
    [
        ("cpu", "0.08", "", "", {"vision": ("0.80", "1.60"), "speech": ("0.80", "1.60")}),
        ("cpu", "0.02", "spot", "", {"vision": ("0.80", "0.80"), "speech": ("0.80", "0.40")}),
        ("cpu", "0.02", "", "vision", {"vision": ("0.80", "0.40"), "speech": ("0.80", "0.80")}),
        ("memory", "0.01", "", "", {"vision": ("0.80", "1.60"), "speech": ("0.40", "0.80")}),
        ("storage", "0.001", "", "", {"vision": ("0.00", "1.00")}),
    ],
)
def test_page_and_rehearsal_tell_the_same_of_cores_memory_and_storage(
    cast: Cast, beside: datetime, resource: str, hourly: str, capacity: str, tenant: str,
    expected: dict[str, tuple[str, str]],
) -> None:  # fmt: skip
    count = Price.objects.count()
    spec = {
        "resource": resource,
        "capacity": capacity or None,
        "hourly": {"amount": hourly, "currency": "EUR"},
    }
    body = {"tenant": tenant or None, "spec": spec}
    client = Api(cast.petra).client
    answer = client.post("/api/v1/prices?dry_run=true", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    told = answer.json()["effect"]
    rows = {each["tenant"]: (each["before"]["amount"], each["after"]["amount"]) for each in told["tenants"]}
    assert rows == expected
    sums = [f"{sum(Decimal(row[place]) for row in expected.values()):.2f}" for place in (0, 1)]
    assert [told["before"]["amount"], told["after"]["amount"]] == sums
    assert told["month"] == f"{beside - DAY:%Y-%m}"
    typed = {"resource": resource, "hourly": hourly, "capacity": capacity, "tenant": tenant, "preview": "yes"}
    page = client_of(cast.petra).post("/console/prices/", typed)
    shown = " ".join(re.sub(r">\s+<", "><", entities.unescape(page.content.decode())).split())
    assert f"{beside - DAY:%B %Y} would have cost {sums[1]} EUR instead of {sums[0]}" in shown
    for before, after in expected.values():
        assert (
            f'class="figure">{before}</td><td data-label="By this price" class="figure">{after}</td>' in shown
        )
    assert Price.objects.count() == count
    # What it cost is what the bill says.
    month = months.month_of(cast.vision, (beside - DAY).date().replace(day=1), now=timezone.now())
    lines = [row.line.amount for row in month.rows if row.line.kind == resource]
    assert sum(lines, Decimal(0)) == Decimal(expected["vision"][0])


def test_a_rehearsal_of_an_offers_price_tells_what_its_page_tells(cast: Cast) -> None:
    this = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Price.objects.update(valid_from=this - 90 * DAY, hourly=Decimal(2))
    held(make_workload(cast.vision, cast.rosa, cast.offer), this - 5 * DAY, this - 5 * DAY + 10 * HOUR)
    body = {"spec": {"offer": cast.offer.slug, "hourly": {"amount": "2.50", "currency": "EUR"}}}
    told = (
        Api(cast.petra)
        .client.post("/api/v1/prices?dry_run=true", body, content_type="application/json")
        .json()
    )
    amounts = {name: told["effect"][name]["amount"] for name in ("before", "after", "difference")}
    assert amounts == {"before": "20.00", "after": "25.00", "difference": "5.00"}
    assert [each["tenant"] for each in told["effect"]["tenants"]] == ["vision"]
    assert Price.objects.filter(offer=cast.offer).count() == 1
    made = Api(cast.petra).client.post("/api/v1/prices", body, content_type="application/json")
    assert made.status_code == 201
    assert "effect" not in made.json()
    for user in (cast.rosa, cast.ann):
        answer = Api(user).client.post("/api/v1/prices?dry_run=true", body, content_type="application/json")
        assert answer.status_code == 403
