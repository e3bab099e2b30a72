"""What last month would have cost by a new price: told before it is set, and nothing is rewritten."""

import html as entities
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.metering import monthly, repricing
from apps.metering.ledger_models import KubectlHolding
from apps.quotas.models import Price
from apps.quotas.prices import Listed
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.test_two_prices import held, preempt

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OCTOBER, AT, NOW = date(2026, 10, 1), datetime(2026, 10, 20, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def used(cast: Cast) -> None:
    """At 2 an hour: vision 10 h, an hour of them given back, and 3 h by kubectl; speech 4 h, 1 in October."""
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    held(row, AT, AT + 10 * HOUR)
    preempt(row, AT + 10 * HOUR)
    KubectlHolding.objects.create(
        cluster=row.cluster, tenant=cast.vision, offer=cast.offer, claim_uid="r1", device="n1/g", gpu="GPU-1",
        node="n1", share_numerator=1, share_denominator=7, started_at=AT, ended_at=AT + 3 * HOUR,
    )  # fmt: skip
    other = make_workload(cast.speech, cast.leon, cast.offer, slug="other")
    held(other, datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 11, 1, 3, tzinfo=UTC), "b")


def by(cast: Cast, new: Listed) -> dict[str, tuple[Decimal, Decimal]]:
    found = repricing.by_price(cast.offer, new, OCTOBER, now=NOW)
    return {each.tenant.slug: (each.before, each.after) for each in found}


def test_a_months_use_is_priced_anew_and_the_book_stays(cast: Cast, used: None) -> None:
    bill = monthly.month_of(cast.vision, OCTOBER, now=NOW).total
    told = by(cast, Listed(Decimal("2.5"), NOW))
    assert told == {"vision": (Decimal(24), Decimal(30)), "speech": (Decimal(2), Decimal("2.5"))}
    assert told["vision"][0] == bill == monthly.month_of(cast.vision, OCTOBER, now=NOW).total
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


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_the_page_tells_the_effect_and_sets_the_price_only_then(cast: Cast) -> None:
    this = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Price.objects.update(valid_from=this - 90 * DAY, hourly=Decimal(2))
    held(make_workload(cast.vision, cast.rosa, cast.offer), this - 5 * DAY, this - 5 * DAY + 10 * HOUR)
    address, client = f"/console/offers/{cast.offer.slug}/prices/", signed_in(cast.petra)
    assert "See the effect on last month" in client.get(address).content.decode()
    answer = client.post(address, {"hourly": "2.50", "preview": "yes"})
    shown = entities.unescape(answer.content.decode())
    assert answer.status_code == 200
    assert f"By this price, {this - DAY:%B %Y} would have cost 25.00 EUR instead of 20.00" in shown
    assert '<td data-label="Difference" class="figure">5.00</td>' in shown
    assert ">Set price<" in shown
    assert Price.objects.filter(offer=cast.offer).count() == 1
    wrong = client.post(address, {"hourly": "1", "valid_from": "2020-01-01T00:00", "preview": "yes"})
    assert wrong.status_code == 422
    assert "A price starts now or later." in wrong.content.decode()
    assert client.post(address, {"hourly": "2.50"}).status_code == 303
    assert Price.objects.filter(offer=cast.offer).count() == 2
    assert signed_in(cast.ann).post(address, {"hourly": "1", "preview": "yes"}).status_code == 403
    assert signed_in(cast.leon).post(address, {"hourly": "1", "preview": "yes"}).status_code == 404
