"""Correcting an allocation on the console and over REST: what it changes is told before it is kept."""

import html as entities
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.metering.allocations.selectors import allocations
from apps.metering.billing.selectors import months
from apps.metering.billing.services import corrections, statements
from apps.metering.billing.services.corrections import Moved, Wish
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.models import Allocation, Correction, HardwareFact
from apps.quotas.models import Offer, Price
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from tests.conftest import Cast, as_actor
from tests.factories import make_workload, notebook_body
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOUR = timedelta(hours=1)
REASON = "The pod had failed; the node said so late."


@pytest.fixture
def held(cast: Cast) -> Allocation:
    """Three hours from noon of the day before yesterday on, at 2 an hour."""
    noon = timezone.now().replace(hour=12, minute=0, second=0, microsecond=250_000) - timedelta(days=2)
    Price.objects.update(valid_from=noon - timedelta(days=90), hourly=Decimal(2))
    spec = parsing.as_json(parsing.parse(notebook_body(cast.offer.slug)))
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="asr-tune", spec=spec)
    return hold(row, noon)


def hold(row: Any, begins: datetime) -> Allocation:
    return Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=f"c-{begins}", node="n1",
        device="n1/gpu-0", device_uuid="GPU-1", share_numerator=1, share_denominator=1,
        started_at=begins, ended_at=begins + 3 * HOUR,
    )  # fmt: skip


def page(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def shape(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def typed(held: Allocation, **more: str) -> dict[str, str]:
    """An hour less than was observed; the beginning as the form shows it."""
    ends = shape(held.started_at + 2 * HOUR)
    return {"begins": shape(held.started_at), "ends": ends, "reason": REASON} | more


def test_the_effect_is_shown_and_nothing_is_kept_until_it_is_confirmed(cast: Cast, held: Allocation) -> None:
    url, client = f"/console/allocations/{held.pk}/", page(cast.petra)
    preview = client.post(url, typed(held))
    shown = entities.unescape(preview.content.decode())
    assert preview.status_code == 200
    assert '<td data-label="Difference" class="figure">-2.00</td>' in shown
    assert "The month is not closed: its statement will have it." in shown
    assert not Correction.objects.exists()
    assert not AuditEvent.objects.filter(action="allocation.corrected").exists()
    kept = client.post(url, typed(held, confirm="yes"))
    assert kept.status_code == 303
    made = Correction.objects.get()
    # The half second that the form cannot show is kept where the beginning was left alone.
    assert (made.started_at, made.reason, made.made_by) == (held.started_at, REASON, "platform")
    assert AuditEvent.objects.get(action="allocation.corrected").target_id == str(held.pk)
    assert REASON in entities.unescape(client.get(url).content.decode())


def test_a_closed_month_stays_and_its_next_statement_gets_the_difference(cast: Cast) -> None:
    now = datetime(2026, 11, 20, 9, tzinfo=UTC)
    Price.objects.update(valid_from=now - timedelta(days=90), hourly=Decimal(2))
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="asr-tune")
    held = hold(row, datetime(2026, 10, 31, 22, tzinfo=UTC))
    HardwareFact.objects.create(
        cluster=row.cluster, gpu="GPU-1", kind=ChangeKind.PRESENT, at=held.started_at, recorded_at=now,
        value={"node": "n1", "model": "H100", "denominator": 1},
    )  # fmt: skip
    petra = as_actor(cast.petra)
    closed = statements.close_month(actor=petra, tenant=cast.vision, month=date(2026, 10, 1), now=now)
    wish = Wish(held.started_at + HOUR, held.ended_at + HOUR if held.ended_at else None, REASON)
    told = corrections.foretell(actor=petra, allocation=held, wish=wish, now=now)
    assert not Correction.objects.exists()
    assert told == [
        Moved(date(2026, 10, 1), closed.number, Decimal("4.00"), Decimal("2.00")),
        Moved(date(2026, 11, 1), "", Decimal("2.00"), Decimal("4.00")),
    ]
    assert corrections.correct_and_tell(actor=petra, allocation=held, wish=wish, now=now) == told
    later = datetime(2026, 12, 2, tzinfo=UTC)
    made = statements.close_month(actor=petra, tenant=cast.vision, month=date(2026, 11, 1), now=later)
    month = months.month_of_statement(made)
    assert (month.corrections, month.total) == (told[0].difference, Decimal("2.00"))


def test_rest_tells_the_effect_in_a_dry_run_and_keeps_it_without_one(cast: Cast, held: Allocation) -> None:
    client, url = Api(cast.petra).client, f"/api/v1/allocations/{held.pk}"
    ends = (held.started_at + 2 * HOUR).isoformat()
    body = json.dumps({"from": held.started_at.isoformat(), "to": ends, "reason": REASON})
    rehearsed = client.post(f"{url}/correct?dry_run=true", body, content_type="application/json").json()
    (moved,) = rehearsed["result"]["effect"]
    assert moved["difference"] == {"amount": "-2.00", "currency": "EUR"}
    assert (moved["month"], moved["statement"]) == (f"{held.started_at:%Y-%m}", None)
    assert not Correction.objects.exists()
    done = client.post(f"{url}/correct", body, content_type="application/json").json()
    assert done["effect"] == rehearsed["result"]["effect"]
    told = client.get(url).json()
    assert told["device_seconds"] == "7200.00000000"
    assert told["observed"]["to"] != told["to"]
    assert [(each["reason"], each["made_by"]) for each in told["corrections"]] == [(REASON, "platform")]


def test_page_and_dry_run_refuse_time_in_which_the_device_was_not_there(cast: Cast, held: Allocation) -> None:
    ends = shape(held.started_at + 4 * HOUR)
    answer = page(cast.petra).post(f"/console/allocations/{held.pk}/", typed(held, ends=ends))
    assert answer.status_code == 422
    assert "n1/gpu-0 was not there from" in entities.unescape(answer.content.decode())
    body = json.dumps({"from": held.started_at.isoformat(), "to": f"{ends}Z", "reason": REASON})
    url = f"/api/v1/allocations/{held.pk}/correct?dry_run=true"
    refused = Api(cast.petra).client.post(url, body, content_type="application/json")
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert (error["pointer"], error["code"]) == ("#/to", "out_of_range")
    assert "was not there" in error["detail"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reason": ""}, "This field is required."),
        ({"begins": "2020-01-01T00:00:00"}, "The ledger is closed before"),
        ({"ends": "2019-01-01T00:00:00"}, "It ends before it begins."),
    ],
)
def test_what_cannot_be_comes_back_with_the_words(
    cast: Cast, held: Allocation, change: dict[str, str], words: str
) -> None:
    answer = page(cast.petra).post(f"/console/allocations/{held.pk}/", typed(held, **change))
    assert answer.status_code == 422
    assert words in entities.unescape(answer.content.decode())


def test_engineers_correct_auditors_look_and_for_others_it_is_not_there(cast: Cast, held: Allocation) -> None:
    one, listed = f"/console/allocations/{held.pk}/", f"/console/workloads/{held.workload_id}/allocations/"
    for user, status in ((cast.petra, 200), (cast.ann, 200), (cast.rosa, 404), (cast.leon, 404)):
        assert page(user).get(one).status_code == status
        assert page(user).get(listed).status_code == status
    assert '<form method="post" class="column stack"' not in page(cast.ann).get(one).content.decode()
    assert page(cast.ann).post(one, typed(held)).status_code == 403
    body = json.dumps({"from": held.started_at.isoformat(), "reason": REASON})
    for user, status in ((cast.ann, 403), (cast.leon, 403), (cast.otto, 404)):
        asked = Api(user).client.post(
            f"/api/v1/allocations/{held.pk}/correct", body, content_type="application/json"
        )
        assert asked.status_code == status
    work = f"/t/vision/workloads/{held.workload_id}/"
    assert listed in page(cast.ann).get(work).content.decode()
    assert listed not in page(cast.rosa).get(work).content.decode()


def test_whoever_pays_sees_what_a_line_of_the_bill_is_made_of_and_corrects_nothing(
    cast: Cast, held: Allocation
) -> None:
    own = f"/t/vision/workloads/{held.workload_id}/allocations/"
    for user, status in ((cast.rosa, 200), (cast.leon, 200), (cast.petra, 200), (cast.otto, 404)):
        assert page(user).get(own).status_code == status
    assert page(cast.rosa).get(own.replace("vision", "speech")).status_code == 404
    shown = page(cast.rosa).get(own).content.decode()
    assert held.device in shown
    assert "/console/" not in shown
    month = f"{held.started_at:%Y-%m}"
    for url in (f"/t/vision/workloads/{held.workload_id}/", f"/t/vision/bill/?month={month}&print=1"):
        assert own in page(cast.rosa).get(url).content.decode()


def test_the_allocations_of_a_deleted_workload_can_still_be_read(cast: Cast, held: Allocation) -> None:
    Workload.objects.filter(pk=held.work.pk).update(deleted_at=timezone.now())
    own = f"/t/vision/workloads/{held.workload_id}/allocations/"
    assert held.device in page(cast.rosa).get(own).content.decode()
    assert page(cast.otto).get(own).status_code == 404


@pytest.mark.parametrize(
    ("mode", "mechanism", "uuid", "parts", "sure"),
    [
        ("exclusive", "dra", "GPU-1", 1, "exclusive"),
        ("exclusive", "device-plugin", "", 1, "unknown"),
        ("mig", "dra", "MIG-1", 7, "mig"),
        ("mig", "dra", "", 7, "unknown"),
        ("time-slicing", "device-plugin", "", 4, "shared-split"),
        ("mps", "device-plugin", "GPU-1", 2, "shared-split"),
    ],
)
def test_how_sure_it_is_whose_a_device_was_and_what_said_so(
    mode: str, mechanism: str, uuid: str, parts: int, sure: str
) -> None:
    offer = Offer(sharing_mode=mode, mechanism=mechanism)
    row = Allocation(offer=offer, device_uuid=uuid, share_numerator=1, share_denominator=parts)
    assert allocations.confidence(row) == sure
    assert allocations.attribution(row) == ("claim" if mechanism == "dra" else mechanism)


def test_pages_and_rest_say_how_an_allocation_was_attributed(cast: Cast, held: Allocation) -> None:
    Offer.objects.update(sharing_mode="time-slicing", mechanism="device-plugin")
    Allocation.objects.update(device_uuid="", share_denominator=4)
    told = Api(cast.rosa).client.get(f"/api/v1/allocations/{held.pk}").json()
    assert (told["attributed_by"], told["confidence"]) == ("device-plugin", "shared-split")
    for url in (
        f"/console/allocations/{held.pk}/",
        f"/console/workloads/{held.workload_id}/allocations/",
    ):
        shown = page(cast.petra).get(url).content.decode()
        assert "Device plugin" in shown
        assert "time is split, use is the GPU" in shown
