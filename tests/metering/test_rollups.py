"""Samples and segments to rows: every microsecond seen has one cause, and sums are sums of integers."""

import random
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from apps.metering.ledger.rules.buckets import (
    BUCKET_US,
    IDLE_BELOW,
    MILLION,
    Cause,
    Row,
    Seen,
    Span,
    Telemetry,
    bucket,
    floor,
    summed,
)
from apps.metering.ledger.rules.segments import Segment, Share
from apps.metering.ledger.selectors import facts
from tests.sample import every

pytestmark = pytest.mark.both_databases

S = MILLION
STEP = 30 * S


def held(begins: int = 0, ends: int = 300, *, numerator: int = 1, alone: bool = True) -> Segment:
    share = Share("tenant", "", "a", numerator, "t", alone)
    rest = Share("idle", "free", "", 7 - numerator)
    return Segment(begins * S, ends * S, 7, Fraction(1), "n", "H100", (share, rest))


def sample(ts: int, sm: int | None = 500_000, dram: int | None = 100_000, **more: int | None) -> Seen:
    return Seen(ts * S, more.pop("step", STEP) or STEP, sm=sm, dram=dram, **more)


def seen(samples: list[Seen], *spans: Span, segments: list[Segment] | None = None) -> Row:
    rows = bucket(segments or [held()], {"a": Telemetry(samples, spans)})
    row = next(row for row in rows if row.holder == "a")
    named = row.hoarded + row.zombie + row.crashing + row.oversized
    causes = row.effective + row.partly + row.idle + named
    assert causes == row.seen_us * MILLION
    assert row.seen_us <= row.held_us
    assert sum(row.histogram) == row.sm_us
    assert 0 <= row.blind_idle <= row.idle
    # By SM alone: what has an SM figure is idle, named by a finding, or did something.
    assert 0 <= row.evaded <= row.sm_sum
    assert row.idle - row.blind_idle + named <= row.sm_us * MILLION - (row.sm_sum - row.evaded)
    return row


def test_a_bucket_full_of_samples_is_seen_whole() -> None:
    row = seen([sample(ts) for ts in range(30, 301, 30)])
    assert (row.samples, row.seen_us, row.held_us, row.share_us) == (10, BUCKET_US, BUCKET_US, BUCKET_US)
    assert row.effective == BUCKET_US * 500_000
    assert row.partly == BUCKET_US * 500_000
    assert row.sm_sum == BUCKET_US * 500_000
    assert row.histogram[5] == BUCKET_US


def test_work_is_the_larger_of_sm_and_dram() -> None:
    assert seen([sample(30, 100_000, 800_000)]).effective == STEP * 800_000


def test_a_gap_is_unknown_and_never_idle() -> None:
    row = seen([sample(30), sample(300)])
    assert (row.seen_us, row.idle) == (2 * STEP, 0)


@pytest.mark.parametrize(
    ("sm", "dram", "seen_us"),
    [(None, None, 0), (None, 400_000, STEP), (400_000, None, STEP), (0, 0, STEP)],
)
def test_a_sample_without_sm_and_dram_is_not_seen_even_if_nvidia_smi_speaks(
    sm: int | None, dram: int | None, seen_us: int
) -> None:
    row = seen([sample(30, sm, dram, smi=1_000_000)])
    assert (row.seen_us, row.smi_us) == (seen_us, seen_us)
    assert (row.sm_us, row.dram_us) == (STEP * (sm is not None), STEP * (dram is not None))


def test_where_samples_overlap_the_earlier_one_wins() -> None:
    row = seen([sample(40, 1_000_000), sample(60, 0, 0)])
    assert (row.seen_us, row.sm_sum) == (50 * S, 30 * S * MILLION)


def test_a_sample_over_the_edge_counts_on_both_sides_once() -> None:
    crossing = [sample(310)]
    first = seen(crossing)
    second = seen(crossing, segments=[held(300, 600)])
    assert (first.seen_us, second.seen_us) == (20 * S, 10 * S)


def test_a_sample_speaks_of_its_holder_only_while_it_held() -> None:
    row = seen([sample(ts) for ts in range(30, 301, 30)], segments=[held(45, 100)])
    assert (row.held_us, row.seen_us) == (55 * S, 55 * S)


def test_a_device_that_several_hold_is_not_seen() -> None:
    assert seen([sample(30)], segments=[held(alone=False)]).seen_us == 0


def test_a_sample_speaks_as_long_as_its_source_collects() -> None:
    assert seen([sample(300, step=300 * S)]).seen_us == BUCKET_US


def test_an_energy_counter_that_stands_still_is_an_exporter_that_repeats_itself() -> None:
    frozen = [sample(30, energy_mj=5), sample(60, energy_mj=5), sample(90, energy_mj=6)]
    assert seen(frozen).seen_us == 2 * STEP
    restarted = [sample(30, energy_mj=5), sample(60, energy_mj=0)]
    assert seen(restarted).seen_us == 2 * STEP


@pytest.mark.parametrize(
    ("work", "cause"), [(IDLE_BELOW - 1, Cause.IDLE), (IDLE_BELOW, Cause.PARTLY), (0, Cause.IDLE)]
)
def test_under_two_percent_is_idle_and_above_it_partly_used(work: int, cause: Cause) -> None:
    row = seen([sample(30, work, 0)])
    assert getattr(row, cause) == STEP * (MILLION - work)


def test_idle_spans_of_findings_name_the_cause_and_zombie_comes_first() -> None:
    hoarded = Span(10 * S, 30 * S, Cause.HOARDED)
    zombie = Span(20 * S, 25 * S, Cause.ZOMBIE)
    row = seen([sample(30, 0, 0)], hoarded, zombie)
    assert (row.idle, row.hoarded, row.zombie) == (10 * S * MILLION, 15 * S * MILLION, 5 * S * MILLION)


def test_of_what_is_oversized_the_part_that_was_too_much_is_named_and_the_rest_is_as_it_was() -> None:
    """Four tenths were too much: of what did no work that is oversized, and what is left is partly used."""
    large = Span(0, 60 * S, Cause.OVERSIZED, part=400_000)
    row = seen([sample(30, 300_000, 0), sample(60, 900_000, 0)], large)
    assert (row.effective, row.oversized, row.partly) == (
        30 * S * 1_200_000,
        30 * S * 500_000,
        30 * S * 300_000,
    )
    crashed = seen([sample(30, 300_000, 0)], large, Span(0, 30 * S, Cause.CRASHING))
    assert (crashed.crashing, crashed.oversized) == (30 * S * 700_000, 0)


def test_what_a_finding_calls_evaded_is_no_work_whatever_the_counters_say() -> None:
    """Blocks that sleep on every multiprocessor read SM active 1.0."""
    evaded = Span(10 * S, 30 * S, Cause.HOARDED, evaded=True)
    row = seen([sample(30, 900_000, 100_000)], evaded)
    assert (row.effective, row.partly) == (10 * S * 900_000, 10 * S * 100_000)
    assert (row.hoarded, row.evaded) == (20 * S * MILLION, 20 * S * 900_000)
    assert row.sm_sum == STEP * 900_000
    # What was not measured is nobody's evasion.
    assert seen([sample(30, None, 900_000)], evaded).hoarded == 0


def test_idle_time_without_sm_is_told_apart_and_no_finding_names_it() -> None:
    row = seen([sample(30, None, 0), sample(60, 0, 0)], Span(0, 60 * S, Cause.HOARDED))
    assert (row.idle, row.blind_idle, row.hoarded) == (STEP * MILLION,) * 3
    assert seen([sample(30, None, 400_000)]).blind_idle == 0


def test_what_an_exporter_exaggerates_is_cut_to_the_whole() -> None:
    row = seen([sample(30, 5_000_000, -3)])
    assert (row.effective, row.sm_max) == (STEP * MILLION, MILLION)


def test_random_samples_give_the_same_row_in_any_order_and_every_cause_sums_up() -> None:
    rng = random.Random(3)
    for _ in range(200):
        samples = [
            sample(
                rng.randrange(-30, 330),
                rng.choice([None, 0, rng.randrange(MILLION)]),
                rng.choice([None, 0, rng.randrange(MILLION)]),
                smi=rng.choice([None, rng.randrange(MILLION)]),
                step=rng.choice([10, 30, 300]) * S,
            )
            for _ in range(rng.randrange(40))
        ]
        spans = [
            Span(
                at * S,
                (at + rng.randrange(1, 90)) * S,
                rng.choice([Cause.ZOMBIE, Cause.HOARDED]),
                rng.random() < 0.3,
            )
            for at in (rng.randrange(300) for _ in range(3))
        ]
        row = seen(samples, *spans)
        rng.shuffle(samples)
        assert seen(samples, *spans) == row


def test_hours_are_sums_of_buckets_and_days_of_hours_in_any_grouping() -> None:
    rng = random.Random(5)
    rows = [
        row
        for index in range(24)
        for row in bucket(
            [held(index * 300, index * 300 + 300, numerator=rng.randint(0, 7))],
            {"a": Telemetry([sample(index * 300 + 30 * n, rng.randrange(MILLION)) for n in range(1, 11)])},
        )
    ]
    whole = summed(rows)
    halves = summed([*summed(rows[:17]), *summed(rows[17:])])
    assert [asdict(row) for row in halves] == [asdict(row) for row in whole]
    assert sum(row.share_us for row in whole) == 7 * 24 * BUCKET_US


def test_gpus_cut_anew_are_summed_in_a_common_share() -> None:
    one, seven = Row("idle", "free", "", 1, share_us=10), Row("idle", "free", "", 7, share_us=35)
    (total,) = summed([one, seven])
    assert (total.denominator, total.share_us) == (7, 70 + 35)


def test_a_bucket_begins_at_whole_multiples_of_its_length_in_utc() -> None:
    at = datetime(2026, 10, 25, 2, 59, 59, 999_999, tzinfo=UTC)
    assert [floor(at, level).strftime("%d %H:%M:%S") for level in (300, 3600, 86400)] == [
        "25 02:55:00", "25 02:00:00", "25 00:00:00"
    ]  # fmt: skip


def test_rows_equal_a_plain_count_second_by_second() -> None:
    """The oracle knows no intervals: each second belongs to the first sample that speaks of it."""
    rng = random.Random(13)
    for _ in range(50):
        begins, ends = sorted(rng.sample(range(301), 2))
        samples = {
            ts: sample(ts, rng.randrange(MILLION), rng.randrange(MILLION), step=rng.choice([10, 30, 60]) * S)
            for ts in rng.sample(range(1, 340), 15)
        }
        cause = rng.choice((Cause.HOARDED, Cause.CRASHING, Cause.OVERSIZED))
        idle = Span(rng.randrange(300) * S, 300 * S, cause, part=rng.randrange(MILLION))
        expected = dict.fromkeys(("seen", "sm", "effective", "named", "rest"), 0)
        for second in range(begins, ends):
            over = [s for ts, s in sorted(samples.items()) if ts - s.step // S <= second < ts]
            if not over:
                continue
            work = max(over[0].sm or 0, over[0].dram or 0)
            expected["seen"] += S
            expected["sm"] += S * (over[0].sm or 0)
            expected["effective"] += S * work
            rest = MILLION - work
            most = idle.part if cause is Cause.OVERSIZED else MILLION
            named = min(rest, most) if second * S >= idle.begins else 0
            expected["named"] += S * named
            expected["rest"] += S * (rest - named)
        row = seen(list(samples.values()), idle, segments=[held(begins, ends)])
        found = (row.seen_us, row.sm_sum, row.effective, getattr(row, cause), row.idle + row.partly)
        assert found == tuple(expected.values())


@pytest.mark.parametrize("seed", every(4, range(60)))
def test_what_is_looked_at_of_a_bucket_says_as_much_as_all_there_is(seed: int) -> None:
    """Steps that change, overlaps, repeats of one moment, exporters that stand still."""
    rng, at, samples = random.Random(seed), 0, []
    while at < 1800:
        step, energy = rng.choice((15, 30, 30, 60, 300)), rng.choice((None, at // 90))
        samples.append(sample(at, rng.randrange(MILLION), energy_mj=energy, step=step * S))
        at += rng.choice((0, 1, step // 2, step, step, 3 * step))
    look = facts._Look.at(samples)
    for begins in range(0, 1800, 300):
        part = facts._window(Telemetry(samples), look, begins * S, (begins + 300) * S)
        segments = [held(begins, begins + 300)]
        assert seen(list(part.samples), segments=segments) == seen(samples, segments=segments)
