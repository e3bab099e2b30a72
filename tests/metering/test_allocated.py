"""What a tenant holds by workloads and by kubectl is one list, on the page, over REST and as CSV."""

import csv
import io
import re
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from apps.metering.allocations.selectors import devices_held
from apps.metering.billing.selectors import line_items
from apps.metering.models import Allocation, Correction
from apps.quotas.models import Offer, Price
from tests.conftest import Cast, client_of
from tests.factories import make_workload
from tests.metering.books import AT, HOUR, MINUTE
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
PERIOD = "from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z"
LIST = f"/api/v1/allocations?{PERIOD}"
_NUMBERS = count()


def portal(cast: Cast, at: datetime, tenant: str = "vision", **more: Any) -> str:
    row = make_workload(getattr(cast, tenant), cast.rosa, cast.offer, slug=f"w-{next(_NUMBERS)}")
    made = Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=row.slug, node="n1", device=row.slug,
        share_numerator=1, share_denominator=7, started_at=at, ended_at=at + HOUR,
    )  # fmt: skip
    return str(made.pk)


def kubectl(cast: Cast, at: datetime, tenant: str = "vision", **more: Any) -> str:
    made = Allocation.objects.create(
        origin="kubectl",
        cluster=cast.vision.cluster, tenant=getattr(cast, tenant), offer=more.pop("offer", cast.offer),
        claim_uid=f"c-{next(_NUMBERS)}", device=more.pop("device", f"n1/d-{next(_NUMBERS)}"),
        gpu=more.pop("gpu", "GPU-a"),
        node="n1", share_numerator=1, share_denominator=more.pop("parts", 7), started_at=at,
        ended_at=at + HOUR, **more,
    )  # fmt: skip
    return str(made.pk)


@pytest.fixture
def mixed(cast: Cast) -> list[str]:
    """Both kinds in turn, newest first; two of each share a moment, where the id decides."""
    made = [(AT + n * MINUTE, (portal, kubectl)[n % 2](cast, AT + n * MINUTE)) for n in range(6)]
    same = AT + 10 * MINUTE
    made += [(same, make(cast, same)) for make in (portal, kubectl, portal, kubectl)]
    portal(cast, AT, "genomics")
    kubectl(cast, AT, "genomics")
    return [pk for _, pk in sorted(made, key=lambda each: (-each[0].timestamp(), each[1]))]


def walk(client: Client, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while url:
        told = client.get(url).json()
        found += told["items"]
        url = told["next"]
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9, 10, 200])
def test_both_kinds_come_once_and_in_order_whatever_the_page(
    cast: Cast, mixed: list[str], limit: int
) -> None:
    client = Api(cast.rosa).client
    assert [each["id"] for each in walk(client, f"{LIST}&tenant=vision&limit={limit}")] == mixed
    other = walk(client, f"{LIST}&tenant=vision&limit={limit}&sort=started_at")
    assert [each["from"] for each in other] == sorted(each["from"] for each in other)
    assert sorted(each["id"] for each in other) == sorted(mixed)
    by_row = walk(client, f"{LIST}&tenant=vision&limit={limit}&sort=created_at")
    assert sorted(each["id"] for each in by_row) == sorted(mixed)


def test_what_comes_and_is_corrected_between_two_pages_moves_nothing(cast: Cast, mixed: list[str]) -> None:
    client = Api(cast.rosa).client
    first = client.get(f"{LIST}&tenant=vision&limit=5&include_total=true").json()
    assert first["total"] == len(mixed)
    kubectl(cast, AT + 30 * MINUTE)
    portal(cast, AT + 31 * MINUTE)
    for row in Allocation.objects.all():
        Correction.objects.create(
            allocation=row, started_at=AT - HOUR, ended_at=None, reason="clock", made_by="petra", made_at=AT
        )
    assert [each["id"] for each in [*first["items"], *walk(client, first["next"])]] == mixed


def test_each_row_says_what_made_it_and_what_said_whose_it_was(cast: Cast) -> None:
    pk = kubectl(cast, AT)
    (told,) = Api(cast.rosa).client.get(LIST).json()["items"]
    assert told == {
        "id": pk, "class": "tenant", "origin": "kubectl", "tenant": "vision", "workload": None, "node": "n1",
        "device": Allocation.objects.get(workload=None).device, "offer": cast.offer.slug, "share": "1/7",
        "units": 1,
        "from": told["from"], "to": told["to"], "device_seconds": "514.28571429", "attributed_by": "claim",
        "confidence": "mig",
    }  # fmt: skip
    one = Api(cast.rosa).client.get(f"/api/v1/allocations/{pk}").json()
    assert one == {**told, "observed": {"from": told["from"], "to": told["to"]}, "corrections": []}
    assert Api(cast.otto).client.get(f"/api/v1/allocations/{pk}").status_code == 404
    portal(cast, AT)
    by = {each["origin"]: each for each in walk(Api(cast.rosa).client, LIST)}
    assert set(by) == {"kubectl", "allotment"}
    for origin, each in by.items():
        assert walk(Api(cast.rosa).client, f"{LIST}&origin={origin}") == [each]
    assert walk(Api(cast.rosa).client, f"{LIST}&origin=kubectl,allotment&limit=1") == list(
        walk(Api(cast.rosa).client, LIST)
    )
    assert Api(cast.rosa).client.get(f"{LIST}&origin=magic").status_code == 400
    own = by["allotment"]["workload"]
    assert walk(Api(cast.rosa).client, f"{LIST}&workload={own}") == [by["allotment"]]


@pytest.mark.parametrize(
    ("device", "gpu", "parts", "how", "sure"),
    [
        ("n1/gpu-0", "GPU-a", 1, "claim", "exclusive"),
        ("n1/gpu-0-mig-1", "GPU-a", 7, "claim", "mig"),
        ("n1/nvidia.com/gpu#0", "n1/nvidia.com/gpu", 1, "device-plugin", "unknown"),
        ("n1/nvidia.com/gpu.shared#3", "n1/nvidia.com/gpu.shared", 4, "device-plugin", "shared-split"),
        ("n1/nvidia.com/mig-1g.10gb#0", "n1/nvidia.com/mig-1g.10gb", 7, "device-plugin", "unknown"),
    ],
)
def test_how_sure_it_is_by_the_device_alone(
    cast: Cast, device: str, gpu: str, parts: int, how: str, sure: str
) -> None:
    kubectl(cast, AT, device=device, gpu=gpu, parts=parts)
    found = devices_held.line_of(Allocation.objects.get(workload=None))
    assert (found.attribution, found.confidence) == (how, sure)


def test_what_was_made_with_kubectl_is_not_corrected(cast: Cast) -> None:
    pk = kubectl(cast, AT)
    body = {"from": AT.isoformat(), "reason": "clock"}
    for user, status in ((cast.petra, 409), (cast.otto, 404)):
        answer = Api(user).client.post(
            f"/api/v1/allocations/{pk}/correct", body, content_type="application/json"
        )
        assert answer.status_code == status
    assert not Correction.objects.exists()


def test_a_line_of_the_bill_leads_to_what_it_counts(cast: Cast, mixed: list[str]) -> None:
    Price.objects.update(valid_from=AT - timedelta(days=60))
    kubectl(cast, AT, offer=None)
    kubectl(cast, AT, capacity="spot")
    client = client_of(cast.rosa)
    bill = client.get("/t/vision/bill/?month=2026-11&print=1").content.decode()
    page = "/t/vision/allocations/?month=2026-11"
    assert page in bill
    begins, ends = AT.replace(day=1, hour=0), AT + timedelta(days=10)
    charged = [
        each for each in line_items.charges_of(cast.vision, begins, ends, now=ends) if not each.key.workload
    ]
    slugs = {row.pk: row.slug for row in Offer.objects.all()}
    assert len(charged) == 3
    for each in charged:
        offer = slugs[each.key.offer] if each.key.offer else ""
        query = f"&origin=kubectl&offer={offer}&capacity={each.key.capacity}"
        assert f"{page}{query.replace('&', '&amp;')}" in bill
        shown = client.get(f"{page}{query}").content.decode()
        assert f'class="figure">{float(each.quantity):.2f}</td>' in shown.partition('class="sum"')[2]
        lines = list(csv.DictReader(io.StringIO(
            client.get(f"{urlsplit(page).path[:-1]}.csv?month=2026-11{query}").content.decode()
        )))  # fmt: skip
        assert sum(float(line["device_hours"]) for line in lines) == pytest.approx(float(each.quantity))
        assert {line["origin"] for line in lines} == {"kubectl"}


def test_pages_of_the_list_hold_each_row_once_and_the_file_all(
    cast: Cast, mixed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.pages.team.usage.held.MOST", 3)
    client, url, shown = client_of(cast.rosa), "/t/vision/allocations/?month=2026-11", ""
    devices = {str(row.pk): row.device for row in Allocation.objects.all()}
    order: list[str] = []
    while url:
        shown = client.get(url).content.decode()
        here = [pk for pk in mixed if f'<th scope="row">{devices[pk]}<' in shown]
        assert len(here) <= 3
        assert 'class="sum"' not in shown
        order += here
        more = re.search(r'href="([^"]*cursor=[^"]*)"', shown)
        url = f"/t/vision/allocations/{more[1].replace('&amp;', '&')}" if more else ""
    assert order == mixed
    told = client.get("/t/vision/allocations.csv?month=2026-11").content.decode()
    assert [line["id"] for line in csv.DictReader(io.StringIO(told))] == mixed
    assert client_of(cast.otto).get("/t/vision/allocations/").status_code == 404
    assert client.get("/t/vision/allocations/?cursor=nonsense").status_code == 400


def test_rest_as_csv_has_both_kinds(cast: Cast, mixed: list[str]) -> None:
    told = Api(cast.rosa).client.get(f"{LIST}&tenant=vision", headers={"Accept": "text/csv"}).content.decode()
    lines = list(csv.DictReader(io.StringIO(told)))
    assert [line["id"] for line in lines] == mixed
    assert {(line["origin"], line["attributed_by"]) for line in lines} == {
        ("kubectl", "claim"),
        ("allotment", "claim"),
    }
