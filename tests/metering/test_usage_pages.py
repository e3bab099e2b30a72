"""The pages of use: what they say of a hoarder, of silence and of nobody, to whom, and as files."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.conf import settings
from django.http import QueryDict
from django.test import Client

from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import AccountSum, Allocation, Bucket, RollPosition
from apps.metering.usage.selectors import series
from apps.workloads.models import Workload
from portal.pages.team.usage import team_usage, use
from tests.conftest import Cast, SignedIn, as_actor
from tests.metering import rolled
from tests.metering.used_scene import DAY, Used, used, work

__all__ = ["used"]

pytestmark = pytest.mark.both_databases

PICTURE = "part=picture"
ASKED = {"HX-Request": "true"}


def text_of(client: Client, url: str, **headers: str) -> str:
    answer = client.get(url, headers=headers or None)
    assert answer.status_code == 200, (url, answer.content[:400])
    return answer.content.decode()


def rows_of(client: Client, url: str) -> list[dict[str, str]]:
    answer = client.get(url)
    assert answer.status_code == 200, url
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def workload_url(row: Workload, tail: str = "") -> str:
    return f"/t/{row.tenant.slug}/workloads/{row.pk}/{tail}"


def test_a_hoarders_page_says_what_nvidia_smi_says_and_what_the_silicon_did(
    used: Used, signed_in: SignedIn
) -> None:
    shown = text_of(signed_in(used.cast.rosa), workload_url(used.hoards))
    assert "nvidia-smi says 98 %, SM active 3 %" in shown
    assert "/help/figures/#sm" in shown


def test_a_teams_page_sums_its_own_workloads_alone(used: Used, signed_in: SignedIn) -> None:
    client = signed_in(used.cast.rosa)
    tables = text_of(client, "/t/vision/usage/?part=who", **ASKED)
    assert "vit-old" in tables
    assert "secret-run" not in tables
    shown = text_of(client, "/t/vision/usage/")
    assert "secret-run" not in shown
    assert "GPU-0000-cccc"[-4:] not in shown
    assert "gpu-01 bbbb" in shown
    # 8 h of two GPUs at 2.94: one 81 % effective, one 3 %; the rest is waste.
    assert "47.04" in shown
    assert f"{8 * 2.94 * 0.97:.2f} EUR of recoverable" in shown
    assert f"{8 * 2.94 * 0.19:.2f} EUR of inefficiency" in shown


def test_of_whole_gpus_and_slices_nvidia_smi_says_what_was_measured_and_no_more(
    used: Used, signed_in: SignedIn
) -> None:
    """A GPU at 98 % and SM active 3 %, one at 99 % and 81 %, and one without such a figure, at 60 %."""
    run = work(used.cast.vision, used.cast.rosa, used.trains.offer, "sliced")
    rolled.hold(run, ("gpu-04", "GPU-0000-ffff"), used.now - timedelta(hours=8), used.now, rolled.SLICED)
    rows = series.held_for(as_actor(used.cast.petra)).filter(tenant=used.cast.vision)
    chart = use.shown(rows, Allocation.objects.none(), use.asked(QueryDict()), now=used.now).chart
    assert chart
    last = chart.steps[-1]
    told = (last.allocated, last.sm, last.smi, last.measured, last.beside)
    assert told == pytest.approx((3, 0.03 + 0.81 + 0.6, 0.98 + 0.99, 2, 0.84))


def test_waste_is_named_by_member_most_first(used: Used, signed_in: SignedIn) -> None:
    rows = rows_of(signed_in(used.cast.rosa), "/t/vision/usage/members.csv?span=24h")
    assert [row["name"] for row in rows] == [used.cast.leon.shown_name, used.cast.rosa.shown_name]
    assert float(rows[0]["hoarded"]) == pytest.approx(8 * 2.94 * 0.97)
    assert float(rows[1]["partly_used"]) == pytest.approx(8 * 2.94 * 0.19)


def test_every_file_sums_to_what_was_charged(used: Used, signed_in: SignedIn) -> None:
    for row in rows_of(signed_in(used.cast.petra), "/t/vision/usage/workloads.csv"):
        parts = sum(
            float(row[key]) for key in row if key not in ("name", "charged", "recoverable", "inefficiency")
        )
        assert parts == pytest.approx(float(row["charged"]), abs=1e-6)


def test_the_file_of_the_picture_has_ratios_and_leaves_the_unknown_empty(
    used: Used, signed_in: SignedIn
) -> None:
    Bucket.objects.filter(workload=used.hoards, starts_at__gte=used.now - timedelta(hours=1)).update(
        seen_us=0, sm_us=0, smi_us=0
    )
    rows = rows_of(signed_in(used.cast.rosa), workload_url(used.hoards, "use.csv?span=24h"))
    assert len(rows) == 96
    assert (rows[-1]["allocated_gpus"], rows[-1]["sm_active"], rows[-1]["coverage"]) == ("1", "", "0")
    assert (rows[-8]["sm_active"], rows[-8]["nvidia_smi"]) == ("0.03", "0.98")
    assert rows[0]["allocated_gpus"] == "0"


@pytest.mark.parametrize("span", ["1h", "24h", "7d", "30d"])
def test_what_is_over_is_looked_back_at_from_its_end(used: Used, signed_in: SignedIn, span: str) -> None:
    early = rolled.floor(used.now - 9 * DAY, 3600) + timedelta(minutes=20)
    run = work(used.cast.vision, used.cast.rosa, used.trains.offer, "old-run")
    rolled.hold(run, ("gpu-03", "GPU-0000-eeee"), early - timedelta(hours=4), early)
    url, client = workload_url(run, f"use.csv?span={span}"), signed_in(used.cast.rosa)
    if span != "30d":
        assert not any(row["sm_active"] for row in rows_of(client, url))
    Workload.objects.filter(pk=run.pk).update(ended_at=early - timedelta(minutes=2))
    last = [row for row in rows_of(client, url) if row["sm_active"]][-1]
    assert datetime.fromisoformat(last["from"]) >= early - use.SPANS[span][1]
    assert "nvidia-smi says 99 %, SM active 81 %" in text_of(client, workload_url(run, f"?span={span}"))


@pytest.mark.parametrize("span", ["1h", "24h"])
def test_of_what_is_over_for_long_the_hours_are_drawn_that_are_kept(
    used: Used, signed_in: SignedIn, span: str
) -> None:
    early = rolled.floor(used.now - 20 * DAY, 3600) + timedelta(minutes=20)
    run = work(used.cast.vision, used.cast.rosa, used.trains.offer, "older-run")
    rolled.hold(run, ("gpu-03", "GPU-0000-eeee"), early - timedelta(minutes=15), early)
    Workload.objects.filter(pk=run.pk).update(ended_at=early)
    kept = rolled.floor(used.now - 14 * DAY, 86400)
    Bucket.objects.filter(level=300, starts_at__lt=kept).delete()
    RollPosition.objects.update(pruned_until=kept)
    (row,) = (
        row for row in rows_of(signed_in(used.cast.rosa), workload_url(run, f"use.csv?span={span}"))
        if row["sm_active"]
    )  # fmt: skip
    assert datetime.fromisoformat(row["from"]) == rolled.floor(early, 3600)


def test_memory_is_drawn_of_one_workload_and_is_in_its_file(used: Used, signed_in: SignedIn) -> None:
    half = used.hoards.offer.gpu_memory_bytes // 2 // 2**20
    Bucket.objects.filter(workload=used.hoards).update(memory_max_mib=half)
    client = signed_in(used.cast.rosa)
    assert "memory in use 50 %" in text_of(client, workload_url(used.hoards, "?series=memory"))
    rows = rows_of(client, workload_url(used.hoards, "use.csv?span=24h"))
    assert (rows[0]["memory_used_mib"], rows[-1]["memory_used_mib"]) == ("", str(half))
    assert "memory in use" not in text_of(client, "/t/vision/usage/?series=memory")


def test_silence_is_hatched_and_unknown_never_zero(used: Used, signed_in: SignedIn) -> None:
    Bucket.objects.filter(workload=used.hoards).update(
        seen_us=0, sm_us=0, smi_us=0, effective=0, hoarded=0, sm_sum=0, smi_sum=0
    )
    shown = text_of(signed_in(used.cast.rosa), workload_url(used.hoards))
    assert "no telemetry: what it did is unknown" in shown
    assert 'class="p-unknown"' in shown
    assert "SM active 0 %" not in shown


def test_the_console_names_money_wasted_today_and_who_and_why(used: Used, signed_in: SignedIn) -> None:
    shown = text_of(signed_in(used.cast.petra), "/console/")
    assert shown.index("EUR of recoverable") < shown.index("</strong> allocated")
    for word in ("Vision", "Genomics", "Research", "hoarded", "nobody asked for it"):
        assert word in shown, word


def test_what_nobody_had_is_told_by_reason(used: Used, signed_in: SignedIn) -> None:
    rows = rows_of(signed_in(used.cast.ann), "/console/usage/idle.csv")
    assert [row["reason"] for row in rows] == ["Free"]
    since_midnight = used.now - used.now.replace(hour=0, minute=0, second=0)
    hours = min(since_midnight.total_seconds() / 3600, 8)
    assert float(rows[0]["gpu_hours"]) == pytest.approx(hours, abs=1e-6)  # the file has six places


@pytest.mark.parametrize("url", ["/t/vision/usage/", "/t/vision/usage/use.csv", "/t/vision/usage/heat.csv"])
def test_another_team_is_not_there(used: Used, signed_in: SignedIn, url: str) -> None:
    assert signed_in(used.cast.otto).get(url).status_code == 404


@pytest.mark.parametrize("url", ["/console/", "/console/usage/use.csv", "/console/usage/tenants.csv"])
def test_the_console_is_not_there_for_a_team(used: Used, signed_in: SignedIn, url: str) -> None:
    assert signed_in(used.cast.leon).get(url).status_code == 404


def test_an_unknown_file_is_not_found(used: Used, signed_in: SignedIn) -> None:
    client = signed_in(used.cast.petra)
    assert client.get("/t/vision/usage/secrets.csv").status_code == 404
    assert client.get("/console/usage/secrets.csv").status_code == 404


@pytest.mark.parametrize("span", ["1h", "24h", "7d", "30d", "nonsense"])
def test_each_span_is_drawn(used: Used, signed_in: SignedIn, span: str) -> None:
    client = signed_in(used.cast.petra)
    for url in ("/t/vision/usage/?", f"/console/?{PICTURE}&", f"{workload_url(used.trains)}?"):
        shown = text_of(client, f"{url}span={span}&series=dram", **ASKED)
        assert 'class="u-sm"' in shown, url
        assert 'class="u-dram"' in shown, url
        assert "could not be made" not in shown, url


def test_parts_answer_alone_and_keep_what_was_asked(used: Used, signed_in: SignedIn) -> None:
    client = signed_in(used.cast.petra)
    asked = {
        "/t/vision/usage/": "money use who heat findings",
        "/console/": "money gpus who idle worst needs use",
        workload_url(used.trains): "use",
    }
    for url, parts in asked.items():
        for part in parts.split():
            shown = text_of(client, f"{url}?span=7d&part={part}", **ASKED).strip()
            assert "<html" not in shown
            assert f'id="{part}" hx-get="{url}?span=7d&amp;part={part}"' in shown, (url, part)


def test_the_fleets_picture_comes_once_the_page_is_there_and_then_refreshes_without_its_form(
    used: Used, signed_in: SignedIn
) -> None:
    client = signed_in(used.cast.petra)
    place = f'id="picture" hx-get="/console/?span=7d&amp;{PICTURE}" hx-trigger="load, live"'
    assert place in text_of(client, "/console/?span=7d")
    picture = text_of(client, f"/console/?span=7d&{PICTURE}", **ASKED)
    section, _, below = picture.partition("</section>")
    assert 'id="gpus" hx-get="/console/?span=7d&amp;part=gpus"' in section
    assert "<form" in below
    assert "<form" not in text_of(client, "/console/?span=7d&part=gpus", **ASKED)


def test_before_any_telemetry_the_pages_say_what_to_do(cast: Cast, signed_in: SignedIn) -> None:
    row = work(cast.vision, cast.rosa, cast.offer, "nb")
    client = signed_in(cast.petra)
    for url in ("/t/vision/usage/", f"/console/?{PICTURE}", workload_url(row)):
        shown = text_of(client, url, **ASKED)
        assert "No telemetry yet" in shown, url
        assert "docs/telemetry.md" in shown, url
    assert rows_of(client, "/t/vision/usage/use.csv") == []


def test_in_the_first_minutes_the_pages_say_when_the_first_figures_come(
    used: Used, signed_in: SignedIn
) -> None:
    Bucket.objects.all().delete()
    AccountSum.objects.all().delete()
    Allocation.objects.update(ended_at=None)
    for url in ("/t/vision/usage/", f"/console/?{PICTURE}", workload_url(used.trains)):
        shown = text_of(signed_in(used.cast.petra), url, **ASKED)
        assert "first figures come five minutes after the start" in shown, url
        assert "No allocation" not in shown, url


def test_money_ends_with_the_last_whole_bucket_or_is_that_of_the_first_minutes(used: Used) -> None:
    now = used.now + timedelta(minutes=2)
    day = use.asked(QueryDict("span=24h"))
    allocations = Allocation.objects.filter(workload=used.trains)
    allocations.update(ended_at=None)
    whole = team_usage.charged(used.cast.vision, day, now=now)
    assert (whole.begins, whole.ends) == (used.now - DAY, used.now)
    Bucket.objects.all().delete()
    Allocation.objects.exclude(workload=used.trains).delete()
    allocations.update(started_at=now - timedelta(minutes=1))
    first = team_usage.charged(used.cast.vision, day, now=now)
    works = team_usage.spent(used.cast.vision, day, now=now).works
    assert [line.name for line in works] == ["bert-ft"]
    assert first.total.charged == Decimal("0.049"), "2.94 an hour, for a minute"


def test_a_part_that_fails_says_so_and_the_rest_stays(
    used: Used, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("portal.pages.team.usage.heat.shown", broken)
    shown = text_of(signed_in(used.cast.rosa), "/t/vision/usage/")
    assert "This part could not be made" in shown
    assert "Retry" in shown
    assert 'class="u-sm"' in shown


def test_a_slice_counts_as_its_part_of_the_gpu(used: Used, signed_in: SignedIn) -> None:
    row = work(used.cast.vision, used.cast.rosa, used.cast.offer, "nb")
    begins = used.now - timedelta(hours=2)
    rolled.hold(row, ("gpu-03", "GPU-0000-eeee"), begins, used.now, rolled.SLICED)
    client = signed_in(used.cast.rosa)
    assert "nvidia-smi: no figure, SM active 60 %" in text_of(client, workload_url(row))
    rows = rows_of(client, "/t/vision/usage/use.csv?span=1h")
    assert float(rows[-1]["allocated_gpus"]) == pytest.approx(2 + 1 / 7, abs=1e-5)
    assert float(rows[-1]["sm_active"]) == pytest.approx((0.81 + 0.03 + 0.6 / 7) / (2 + 1 / 7), abs=1e-5)


def test_how_figures_are_computed_has_every_anchor_that_is_linked(used: Used, signed_in: SignedIn) -> None:
    shown = text_of(signed_in(used.cast.rosa), "/help/figures/")
    for anchor in (
        "allocated",
        "smi",
        "sm",
        "coverage",
        "unknown",
        "money",
        "effective",
        "waste",
        "heat",
        "idle",
    ):
        assert f'id="{anchor}"' in shown, anchor


@pytest.mark.parametrize("formula", ["max-sm-dram", "sm"])
def test_the_page_of_how_names_the_formula_of_this_installation(
    cast: Cast, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch, formula: str
) -> None:
    changed = settings.CONFIG.model_copy(update={"effective_formula": formula})
    monkeypatch.setattr(settings, "CONFIG", changed)
    shown = text_of(signed_in(cast.rosa), "/help/figures/")
    assert f"= {effective_formula.present().label}, over what was seen" in shown
    assert ("max(SM active, DRAM active)" in shown) is (formula == "max-sm-dram")


def test_a_workloads_page_shows_its_whole_life_unless_asked(used: Used, signed_in: SignedIn) -> None:
    rosa = signed_in(used.cast.rosa)
    html = text_of(rosa, workload_url(used.trains))
    assert re.search(r'id="span-life"\s+href="\?span=life"\s+aria-current="true"', html)
    rows = rows_of(rosa, workload_url(used.trains, "use.csv"))
    begins = used.now - timedelta(hours=8)
    assert datetime.fromisoformat(rows[0]["from"]) == begins
    assert all(row["allocated_gpus"] == "1" for row in rows)
    assert 'id="span-life"' not in text_of(rosa, "/t/vision/usage/"), "a team has no end"


@pytest.mark.parametrize(
    ("hours", "step", "count"), [(0.1, 300, 12), (8, 300, 96), (30, 900, 120), (24 * 6, 3600, 144)]
)
def test_a_life_has_the_shortest_steps_that_fit(hours: float, step: int, count: int) -> None:
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    life = use.Asked(use.LIFE, frozenset(), begins=now - timedelta(hours=hours))
    assert life.cut(now) == (timedelta(seconds=step), count)
