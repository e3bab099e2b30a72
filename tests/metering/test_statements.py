"""A closed month: sums to the cent, never changed, and what comes to light later is in the next one."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Conflict, Invalid, NotAllowed
from apps.metering.billing.rules import rounding
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.rules.rounding import Billed, Charge, Key
from apps.metering.billing.selectors import focus_export, line_items, months
from apps.metering.billing.services import statements
from apps.metering.models import Allocation, Bucket, Correction, Statement, StatementLine, Unchangeable
from apps.metering.specs import Formula, LineKind
from apps.quotas.models import Price
from apps.workloads.models import Workload, WorkloadEvent
from tests.conftest import Cast, as_actor
from tests.factories import make_offer, make_workload, notebook_body
from tests.metering.closing import AT, DAY, DECEMBER, HOUR, NOVEMBER, NOW, OCTOBER, close
from tests.metering.made_buckets import decimals, roll
from tests.metering.priced_scene import held, preempt, price
from tests.sample import every

pytestmark = pytest.mark.both_databases

BEGINS, ENDS = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def amounts(statement: Statement) -> list[tuple[str, Decimal]]:
    return [(line.kind, line.amount) for line in statement.lines.all()]


@pytest.mark.django_db
def test_a_month_is_closed_with_both_prices_a_number_a_digest_and_an_event(cast: Cast, row: Workload) -> None:
    roll(held(row, AT, AT + 10 * HOUR), NOW, effective=0.5, idle=0.25)
    made = close(cast)
    assert (made.total, made.effective, made.waste, made.unknown, made.other) == decimals(20, 10, 5, 5, 0)
    assert (made.number, made.currency, made.closed_by) == ("vision-0001", "EUR", "platform")
    assert made.formula == "charged x max(SM active, DRAM active), v1"
    (line,) = made.lines.all()
    assert (line.quantity, line.unit, line.unit_price) == (10, "device-hours", 2)
    assert line.causes == dict.fromkeys(CAUSES, "0.00") | {"idle": "5.00"}
    assert len(made.digest) == 64
    assert statements.is_whole(made)
    event = AuditEvent.objects.get(action="statement.close")
    assert (event.chain, event.target_name) == ("tenant:vision", "vision-0001")


@pytest.mark.django_db
def test_a_line_names_the_price_of_the_time_that_it_charges(cast: Cast, row: Workload) -> None:
    """A first price, and a change, elsewhere in the month are none of its business."""
    Price.objects.update(valid_from=AT)
    price(None, "0.04", AT, resource="cpu")
    for at in (AT + 2 * DAY, AT + 4 * DAY):
        price(cast.offer, "2", at)
        price(None, "0.04", at, resource="cpu")
    price(cast.offer, "3", AT + 6 * DAY)
    price(None, "0.05", AT + 6 * DAY, resource="cpu")
    held(row, AT, AT + 5 * DAY)
    held(row, AT + 6 * DAY - HOUR, AT + 6 * DAY, "b")
    later = make_workload(cast.vision, cast.rosa, cast.offer, slug="later")
    held(later, AT + 6 * DAY, AT + 7 * DAY, "c")
    across = make_workload(cast.vision, cast.rosa, cast.offer, slug="w-across")
    held(across, AT + 5 * DAY, AT + 7 * DAY, "d")
    found = [(line.kind, line.unit_price, line.list_price) for line in close(cast).lines.all()]
    assert found == [
        ("gpu", 3, 3), ("gpu", 2, 2), ("gpu", None, None),
        ("cpu", Decimal("0.05"), None), ("cpu", Decimal("0.04"), None), ("cpu", None, None),
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("seed", every(4, range(5)))
def test_lines_sum_to_the_total_and_parts_to_their_lines_to_the_cent(
    cast: Cast, row: Workload, seed: int
) -> None:
    rng = Random(seed)
    whole = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3.33333333")
    Price.objects.filter(offer=whole).update(valid_from=AT - 90 * DAY)
    for number in range(9):
        some = make_workload(cast.vision, cast.rosa, rng.choice((cast.offer, whole)), slug=f"w{number}")
        for again in "ab":
            begins = BEGINS + rng.randint(-90_000, 2_600_000) * timedelta(seconds=1)
            a = held(some, begins, begins + rng.randint(1, 30_000) * timedelta(seconds=1), f"{number}{again}")
            roll(a, NOW, rng)
            if rng.random() < 0.4:
                preempt(some, a.ended_at)  # type: ignore[arg-type]
    exact = line_items.charges_of(cast.vision, BEGINS, ENDS, now=NOW)
    made = close(cast)
    lines = list(made.lines.all())
    total = sum(line.amount for line in lines)
    assert made.total == total == rounding.rounded(sum((c.charged for c in exact), Fraction(0)))
    assert made.total == made.effective + made.waste + made.unknown + made.other
    for line in lines:
        back = sum(each.amount for each in lines if each.kind == "refund" and same(each, line))
        if line.kind == "gpu":
            assert line.amount + back == line.effective + line.waste + line.unknown
            assert line.waste == sum(Decimal(text) for text in line.causes.values())
            assert min(line.effective, line.waste, line.unknown) >= 0
    assert any(line.kind == "refund" for line in lines)
    assert statements.corrections_of(made, now=NOW) == []


def same(one: StatementLine, other: StatementLine) -> bool:
    return (one.workload_id, one.offer_id) == (other.workload_id, other.offer_id)


def test_a_thousand_thirds_of_a_cent_are_billed_as_they_sum() -> None:
    charges = [
        Charge(Key(LineKind.GPU, capacity=str(n)), "w", Fraction(1, 300), Fraction(1), "h",
               parts={"effective": Fraction(1, 900), **dict.fromkeys(CAUSES, Fraction(0)),
                      "unknown": Fraction(2, 900)})
        for n in range(1000)
    ]  # fmt: skip
    found = rounding.lines(charges, BEGINS, ENDS)
    assert sum(line.amount for line in found) == Decimal("3.33")
    assert all(line.amount == line.effective + line.waste + line.unknown for line in found)


@pytest.mark.django_db
def test_what_is_closed_cannot_be_changed_or_deleted(cast: Cast, row: Workload) -> None:
    held(row, AT, AT + HOUR)
    made = close(cast)
    line = made.lines.get()
    made.total = Decimal(1)
    line.amount = Decimal(1)
    attempts: list[Any] = [
        made.save, made.delete, line.save, line.delete, Statement.objects.all().delete,
        StatementLine.objects.all().delete, lambda: Statement.objects.update(total=1),
        lambda: made.lines.update(amount=1), made.lines.all().delete,
        lambda: Statement.objects.bulk_update([made], ["total"]),
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(Unchangeable):
            attempt()
    assert Statement.objects.get().total == 2


@pytest.mark.django_db
def test_a_forged_column_is_noticed_whichever_it_is(cast: Cast, row: Workload) -> None:
    roll(held(row, AT, AT + 10 * HOUR), NOW, effective=0.5, idle=0.25)
    made = close(cast)
    forged = [
        (each, field)
        for each in (made, made.lines.get())
        for field in each._meta.concrete_fields
        if not field.primary_key and field.name not in ("digest", "statement")
    ]
    assert {field.attname for _, field in forged} > {"unit_price", "list_price", "waste", "closed_by"}
    for each, field in forged:
        written: QuerySet[Any] = QuerySet(type(each)).filter(pk=each.pk)
        old = getattr(each, field.attname)
        written.update(**{field.attname: cast.speech.pk if field.name == "tenant" else _other(old)})
        assert not statements.is_whole(Statement.objects.get(pk=made.pk)), field.attname
        written.update(**{field.attname: old})
    assert statements.is_whole(Statement.objects.get(pk=made.pk))


def _other(value: Any) -> Any:
    """Another value of the same type and length."""
    if isinstance(value, UUID):
        return None
    if isinstance(value, datetime | date):
        return value + DAY
    if isinstance(value, dict):
        return {**value, "idle": "9.99"}
    return f"{value[:-1]}~" if isinstance(value, str) else (value or 0) + 1


@pytest.mark.django_db
def test_a_statement_of_before_keeps_its_digest_and_a_forged_split_of_it_is_noticed(
    cast: Cast, row: Workload
) -> None:
    """Closed by the release before, which did not digest prices and the head's split."""
    held(row, AT, AT + HOUR)
    made = close(cast)
    of_before = statements.digest_of_before(made, list(made.lines.all()))
    closed: QuerySet[Statement] = QuerySet(Statement).filter(pk=made.pk)
    closed.update(digest=of_before)
    assert statements.is_whole(closed.get())
    closed.update(effective=made.effective + 1, other=made.other - 1)
    assert not statements.is_whole(closed.get())


@pytest.mark.django_db
def test_a_forged_line_is_noticed(cast: Cast, row: Workload) -> None:
    held(row, AT, AT + HOUR)
    made = close(cast)
    line = made.lines.get()
    StatementLine.objects.bulk_create([StatementLine(
        statement=made, position=2, kind="gpu", about="gpu", description="more", quantity=0, unit="",
        amount=0, begins=line.begins, ends=line.ends,
    )])  # fmt: skip
    assert not statements.is_whole(made)


@pytest.mark.django_db
def test_only_ended_months_in_their_order_once_and_by_platform_engineers(cast: Cast, row: Workload) -> None:
    with pytest.raises(Conflict, match="ends on 2026-12-01"):
        close(cast, NOVEMBER)
    with pytest.raises(Invalid, match="2026-10"):
        close(cast, date(2026, 10, 2))
    for user in (cast.leon, cast.ann, cast.rosa):
        with pytest.raises(NotAllowed):
            statements.close_month(actor=as_actor(user), tenant=cast.vision, month=OCTOBER, now=NOW)
    close(cast, date(2026, 8, 1))
    with pytest.raises(Conflict, match="the next one is September 2026"):
        close(cast)
    with pytest.raises(AlreadyExists, match="August 2026 is closed: statement vision-0001"):
        close(cast, date(2026, 8, 1))
    assert close(cast, date(2026, 9, 1)).number == "vision-0002"


@pytest.mark.django_db
def test_what_comes_to_light_later_is_a_correction_in_the_next_statement_once(
    cast: Cast, row: Workload
) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    untouched = make_workload(cast.vision, cast.leon, cast.offer, slug="same")
    held(untouched, AT, AT + HOUR / 7, "b")
    close(cast)
    Correction.objects.create(
        allocation=a, started_at=AT, ended_at=AT + 7 * HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    roll(Allocation.objects.get(pk=a.pk), NOW, effective=1)
    Bucket.objects.filter(starts_at__gte=AT + 7 * HOUR, level=300).delete()
    november = close(cast, NOVEMBER, now=NOW + 40 * DAY)
    (line,) = november.lines.all()
    assert (line.kind, line.about) == ("correction", "gpu")
    assert (line.amount, november.total) == decimals(-6, -6)
    assert (line.effective, line.unknown, line.begins.date()) == (14, -20, OCTOBER)
    assert line.description.startswith("Correction of October 2026: nb-ada")
    assert close(cast, DECEMBER, now=NOW + 80 * DAY).lines.count() == 0
    assert statements.billed(Statement.objects.get(month=OCTOBER))[
        Key(LineKind.GPU, row.pk, row.offer_id)
    ].amount == Decimal(14)


@pytest.mark.django_db
def test_a_new_price_changes_no_closed_month(cast: Cast, row: Workload) -> None:
    held(row, AT, AT + 10 * HOUR)
    made = close(cast)
    price(cast.offer, "9", NOW)
    assert statements.corrections_of(made, now=NOW + DAY) == []


@pytest.mark.django_db
@pytest.mark.parametrize(("first", "then"), [("max-sm-dram", "sm"), ("sm", "max-sm-dram")])
def test_a_new_formula_changes_no_closed_month(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    count_by(monkeypatch, first)
    roll(held(row, AT, AT + 10 * HOUR), NOW, effective=0.5, idle=0.25)
    october = close(cast)
    count_by(monkeypatch, then)
    november = close(cast, NOVEMBER, NOW + 40 * DAY)
    assert november.lines.count() == 0
    labels = {"max-sm-dram": Formula.MAX.label, "sm": Formula.SM.label}
    assert (october.formula, november.formula) == (labels[first], labels[then])
    assert {"max-sm-dram": 10, "sm": 5}[first] == october.effective


@pytest.mark.django_db
def test_what_comes_late_is_judged_by_the_formula_its_month_was_closed_with(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    close(cast)
    count_by(monkeypatch, "sm")
    roll(a, NOW, effective=0.5, idle=0.25)
    (line,) = close(cast, NOVEMBER, NOW + 40 * DAY).lines.all()
    assert (line.kind, line.amount) == ("correction", 0)
    assert (line.effective, line.causes["idle"], line.causes["partly"], line.unknown) == (
        Decimal(10), "5.00", "0.00", -15
    )  # fmt: skip
    month = months.month_of(cast.vision, NOVEMBER, now=NOW + 41 * DAY)
    (told,) = csv.DictReader(io.StringIO(focus_export.text_of(month, now=NOW + 41 * DAY)))
    assert told["x_Formula"] == Formula.MAX.label


def count_by(monkeypatch: pytest.MonkeyPatch, formula: str) -> None:
    changed = settings.CONFIG.model_copy(update={"effective_formula": formula})
    monkeypatch.setattr(settings, "CONFIG", changed)


def test_less_than_a_cent_is_rounding_and_is_not_corrected() -> None:
    key = Key(LineKind.CPU)
    charge = Charge(key, "w", Fraction(1999, 1000), Fraction(1), "h")
    assert rounding.corrections([charge], {key: Billed(Decimal("1.99"))}, BEGINS, ENDS) == []
    (line,) = rounding.corrections([charge], {key: Billed(Decimal("1.98"))}, BEGINS, ENDS)
    assert line.amount == Decimal("0.02")
    (gone,) = rounding.corrections([], {key: Billed(Decimal("1.98"))}, BEGINS, ENDS)
    assert gone.amount == Decimal("-1.98")


@pytest.mark.django_db
def test_a_refund_is_a_line_below_its_charge(cast: Cast, row: Workload) -> None:
    a = held(row, AT, AT + 3 * HOUR)
    roll(a, NOW, effective=1)
    preempt(row, AT + 3 * HOUR)
    made = close(cast)
    assert amounts(made) == [("gpu", Decimal(6)), ("refund", Decimal(-2))]
    assert (made.total, made.effective, made.unknown) == decimals(4, 4, 0)
    assert [line.quantity for line in made.lines.all()] == [3, -1]
    assert WorkloadEvent.objects.count() == 1


@pytest.mark.django_db
def test_cores_memory_and_disks_are_charged_while_devices_are_held_once_per_pod(
    cast: Cast, row: Workload
) -> None:
    disk = {"name": "data", "size": "100Gi", "mount_path": "/data"}
    Workload.objects.filter(pk=row.pk).update(
        spec=notebook_body(cast.offer.slug, cpu="2", memory="16Gi", volumes=[disk])
    )
    for resource, hourly in (("cpu", "0.04"), ("memory", "0.005"), ("storage", "0.0001")):
        price(None, hourly, AT - 60 * DAY, resource=resource)
    held(row, AT, AT + 10 * HOUR, "one")
    Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid="one", node="n", device="second",
        share_numerator=1, share_denominator=7, started_at=AT, ended_at=AT + 10 * HOUR,
    )  # fmt: skip
    made = close(cast)
    found = {line.kind: (line.amount, line.quantity, line.unit, line.unit_price) for line in made.lines.all()}
    assert found == {
        "gpu": (Decimal(40), 20, "device-hours", 2),
        "cpu": (Decimal("0.80"), 20, "core-hours", Decimal("0.04")),
        "memory": (Decimal("0.80"), 160, "GiB-hours", Decimal("0.005")),
        "storage": (Decimal("0.10"), 1000, "GiB-hours", Decimal("0.0001")),
    }
    assert (made.total, made.other, made.unknown) == decimals("41.70", "1.70", 40)
    assert sum(days(cast), Fraction(0)) == Fraction("41.70")


def days(cast: Cast) -> list[Fraction]:
    known = line_items.holdings_of_month([cast.vision], BEGINS.date(), now=NOW).known
    return line_items.daily(cast.vision, known, BEGINS, ENDS)


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_month_in_which_clocks_change_has_its_days_of_24_hours(
    cast: Cast, row: Workload, zone: str
) -> None:
    with timezone.override(zone):
        held(row, BEGINS - DAY, ENDS + DAY)
        (line,) = close(cast).lines.all()
        assert (line.quantity, line.amount) == decimals(31 * 24, 31 * 24 * 2)
        assert days(cast) == [Fraction(48)] * 31
