"""The detector is tuned to physics: one spinning block, sleeping blocks, silent counters, a policy's hours,
bad rows.

Beside single rules it is scored, in a short form of `make verify SUITE=detectors`.
"""

import os
import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import pytest

from apps.metering.detector.judge import judge
from apps.metering.detector.trace import clean, read_samples
from tests.cost import calm_ms
from tests.metering import scoring
from tests.metering.handmade import Read, Values, allocation, label, rows, training, verdict
from tests.metering.traces import DAY, HOUR, MONDAY

FIRST = int(os.environ.get("DETECTOR_FIRST_SEED", "201"))
SEEDS = int(os.environ.get("DETECTOR_SEEDS", "3"))


def test_an_allocation_that_does_nothing_is_a_hoarder_since_its_start_up() -> None:
    found = verdict(allocation(), lambda _: {})
    assert found.labels == ("hoarder",)
    assert found.idle[0][0] <= allocation().start + 1800
    assert found.wasted_device_seconds == pytest.approx(found.idle[0][1] - found.idle[0][0])


def test_evidence_of_what_never_worked_begins_with_its_first_idle_run() -> None:
    notebook = allocation(96, kind="notebook", office_hours=[9, 18])
    found = verdict(notebook, lambda _: {})
    assert found.labels == ("hoarder",)
    assert len(found.idle) > 1
    assert found.evidence == (found.idle[0][0], notebook.end)


def test_a_share_of_a_device_wastes_its_share() -> None:
    quarter = allocation(share=0.25, sharing="time-slicing")
    found = verdict(quarter, lambda _: {})
    assert found.wasted_device_seconds == pytest.approx(0.25 * (found.idle[0][1] - found.idle[0][0]))


@pytest.mark.parametrize(("sms", "sharing", "share"), [(132, "whole", 1), (16, "mig", 1 / 7)])
def test_one_spinning_block_is_evasion_on_a_whole_gpu_and_on_its_smallest_slice(
    sms: int, sharing: str, share: float
) -> None:
    held = allocation(sms=sms, sharing=sharing, share=share)
    assert label(held, lambda _: {"sm": 1 / sms, "util": 1.0, "watts": 115.0}) == "evasion"


def test_blocks_that_sleep_on_every_multiprocessor_are_told_by_parked_watts() -> None:
    held = allocation()
    assert label(held, lambda _: {"sm": 1.0, "util": 1.0, "watts": 95.0}) == "evasion"
    assert label(held, lambda _: {"sm": 1.0, "util": 1.0, "watts": 420.0}) == "healthy"
    assert label(held, lambda _: {"sm": 1.0, "util": 1.0, "watts": None}) == "healthy"


def test_counters_stuck_at_0_under_full_watts_are_work() -> None:
    assert label(allocation(), lambda _: {"util": 0.98, "watts": 560.0}) == "healthy"


def test_a_slice_whose_counters_never_moved_on_a_board_that_works_is_unknown() -> None:
    """Nobody saw it rest: what the board draws is enough for this slice's work, or for a neighbour's."""
    held = allocation(sms=14, sharing="mig", share=1 / 7, total_mib=4864, tdp_w=400, model="A100-SXM4-40GB")
    for watts, right in ((88.0, "unknown"), (58.0, "hoarder")):
        assert label(held, lambda _, watts=watts: {"util": None, "watts": watts, "memory": 4100.0}) == right  # type: ignore[misc]


def test_counters_at_0_with_a_busy_util_and_no_watts_are_unknown() -> None:
    assert label(allocation(), lambda _: {"util": 0.98, "watts": None}) == "unknown"


def test_a_second_of_full_load_every_ten_minutes_does_not_reset_idleness() -> None:
    def burst(ts: float) -> Values:
        return {"sm": 0.033, "tensor": 0.02, "dram": 0.01} if ts % 600 < 30 else {}

    found = verdict(allocation(), burst)
    assert found.labels == ("evasion",)
    assert sum(b - a for a, b in found.idle) > 7 * HOUR


@pytest.mark.parametrize("every", [26.0, 41.0])
def test_a_kernel_of_most_of_a_second_every_half_minute_is_a_clock_however_much_it_does(every: float) -> None:
    """Averaged it reads like sparse requests, tensor cores included; but chance leaves gaps and heaps."""
    held = allocation(sms=132)

    def ticks(ts: float) -> Values:
        share = 0.7 * (ts // every - (ts - 30) // every) / 30
        return {"sm": share, "tensor": 0.8 * share, "dram": 0.3 * share, "util": 0.02, "watts": 85.0}

    assert label(held, ticks) == "evasion"
    assert label(allocation(kind="service"), ticks) == "evasion"
    rng = random.Random(5)
    asked = sorted(held.start + rng.random() * (held.end - held.start) for _ in range(8 * 100))

    def requests(ts: float) -> Values:
        share = 0.7 * (bisect_left(asked, ts) - bisect_left(asked, ts - 30)) / 30
        return {"sm": share, "tensor": 0.8 * share, "dram": 0.3 * share, "util": 0.02, "memory": 6e4}

    assert label(allocation(kind="service"), requests) == "healthy"


def test_cells_of_a_few_blocks_are_no_noise_of_coarse_counters() -> None:
    """Each reads the same hundredth, as noise that is rounded does; but a kernel ran whenever one does."""
    rng = random.Random(4)
    held = allocation(kind="notebook", idle_window_s=7200.0)
    starts = sorted(rng.uniform(held.start, held.end) for _ in range(90))

    def cells(ts: float) -> Values:
        runs = bisect_left(starts, ts) > bisect_left(starts, ts - 60)
        return {"sm": 0.01, "util": 0.5, "watts": 100.0} if runs else {}

    assert label(held, cells) == "healthy"


def test_blocks_that_sleep_on_a_slice_are_told_by_a_calm_boards_watts() -> None:
    """However many warps they are; integer work on the same slice is paid for."""
    held = allocation(sms=16, sharing="mig", share=1 / 7, total_mib=9984)

    def story(watts: float) -> Read:
        busy = {"sm": 1.0, "occupancy": 0.5, "watts": watts, "memory": 500.0}
        return lambda ts: busy if ts > held.start + 1200 else {"watts": 300.0, "memory": 500.0}

    assert label(held, story(301.0)) == "evasion"
    assert label(held, story(345.0)) == "healthy"


def test_watts_while_a_slices_counters_drop_out_are_no_watts_of_its_rest() -> None:
    """A counter that nobody read is not 0: what the board drew then says nothing of a device at rest."""
    held = allocation(sms=16, sharing="mig", share=1 / 7, total_mib=9984)
    hashes: Values = {"sm": 1.0, "occupancy": 0.5, "watts": 345.0, "memory": 500.0}
    lost: Values = {**hashes, "sm": 0.0, "occupancy": None, "tensor": None, "dram": None}

    def story(ts: float) -> Values:
        if ts < held.start + 600:
            return {"watts": 300.0, "memory": 500.0}
        return lost if ts % 2400 < 300 else hashes

    assert label(held, story) == "healthy"


def test_cells_of_uneven_length_and_rhythm_are_a_person_at_the_same_level() -> None:
    rng = random.Random(3)
    cells, at = [], MONDAY + 9 * HOUR
    while at < MONDAY + 18 * HOUR:
        cells.append((at, at + rng.uniform(20, 500)))
        at = cells[-1][1] + rng.expovariate(1 / 500)
    held = allocation(kind="notebook")
    assert label(held, lambda ts: {"sm": 0.012 * any(a <= ts < b for a, b in cells)}) == "healthy"


def test_a_notebooks_idle_time_counts_in_office_hours_of_working_days_only() -> None:
    start = MONDAY + 4 * DAY + 9 * HOUR
    weekend: Values = {"kind": "notebook", "start": start, "end": MONDAY + 6 * DAY}

    def until(hour: float) -> Read:
        return lambda ts: training(ts) if ts < MONDAY + 4 * DAY + hour * HOUR else {}

    assert label(allocation(**weekend), until(17.5)) == "healthy"
    left_early = verdict(allocation(**weekend), until(15))
    assert left_early.labels == ("forgotten",)
    [(since, until_six)] = left_early.idle
    assert since == pytest.approx(MONDAY + 4 * DAY + 15 * HOUR, abs=60)
    assert until_six == MONDAY + 4 * DAY + 18 * HOUR
    abroad = allocation(**weekend | {"utc_offset_h": -8, "office_hours": [9, 18]})
    assert label(abroad, until(17.5)) == "forgotten"


def test_a_job_idles_at_night_too() -> None:
    held = allocation(24)
    assert label(held, lambda ts: training(ts) if ts < held.start + 3 * HOUR else {}) == "forgotten"


def test_memory_without_a_process_is_a_zombie_and_a_blind_process_count_is_not() -> None:
    held = allocation()

    def story(ts: float, processes: int) -> Values:
        working = ts < held.start + 2 * HOUR
        return (training(ts) if working else {"memory": 60_000.0}) | {"processes": processes or int(working)}

    assert label(held, lambda ts: story(ts, 0)) == "zombie"
    assert label(held, lambda ts: story(ts, 1)) == "forgotten"
    assert label(held, lambda ts: training(ts) | {"processes": 0}) == "healthy"


def test_counters_that_die_while_the_board_draws_on_are_unknown() -> None:
    """Of a slice nobody knows whose the watts are: that they stay when its counters end tells."""
    held = allocation(sms=16, sharing="mig", share=1 / 7, total_mib=9984)
    left = held.start + 6 * HOUR
    works: Values = {"sm": 0.8, "tensor": 0.3, "dram": 0.4, "util": None, "watts": 345.0}

    def story(watts: float) -> Read:
        return lambda ts: works if ts < left else {"util": None, "watts": watts}

    assert label(held, story(345.0)) == "unknown"
    assert label(held, story(300.0)) == "forgotten"


def test_counters_at_0_that_nothing_bears_out_are_unknown() -> None:
    held = allocation()
    assert label(held, lambda _: {"util": None, "watts": None}) == "unknown"
    assert label(held, lambda _: {"util": 0.6, "watts": None}) == "unknown"
    assert label(held, lambda _: {"util": None, "watts": None, "memory": 0.0}) == "hoarder"
    for borne_out in ({"util": 0.0, "watts": None}, {"util": None, "watts": 80.0}):
        assert label(held, lambda _, told=borne_out: told) == "hoarder"  # type: ignore[misc]


def test_counters_that_die_late_are_unknown_though_most_of_the_time_was_told() -> None:
    held = allocation(24)
    left = held.start + 20 * HOUR
    lost: Values = {"util": 0.9, "watts": None}
    assert (
        label(held, lambda ts: training(ts) if ts < left - 2 * HOUR else {} if ts < left else lost)
        == "unknown"
    )


def test_missing_telemetry_is_unknown_and_never_idle() -> None:
    held = allocation()
    seen = rows(held, lambda _: {})
    for blind in ([], [s._replace(sm=None) for s in seen], [s for s in seen if s.ts % 5000 < 2000]):
        found = judge(held, blind)
        assert (found.labels, found.idle, found.wasted_device_seconds) == (("unknown",), (), 0.0)


@pytest.mark.parametrize("minutes", [12, 40, 70])
def test_silence_at_the_end_counts_from_the_last_sample(minutes: int) -> None:
    """Whoever is silent may work: the policy's window need not be over for that."""
    held = allocation()
    seen = [s for s in rows(held, lambda _: {}) if s.ts < held.end - 60 * minutes]
    assert judge(held, seen).labels == ("unknown",)
    assert judge(held, [s for s in rows(held, lambda _: {}) if s.ts < held.end - 300]).labels == ("hoarder",)


@pytest.mark.parametrize("kept", [0.105, 0.2, 0.3, 0.4])
def test_the_step_is_the_sources_and_not_that_of_what_survived(kept: float) -> None:
    held, rng = allocation(10), random.Random(8)
    seen = [s for s in rows(held, lambda _: {}) if rng.random() < kept]
    assert clean(held, seen).coverage <= 1.25 * kept + 0.02
    assert judge(held, seen).labels == ("unknown",)
    told = replace(held, step_s=30.0)
    assert clean(told, seen[::2]).coverage <= 0.65 * kept + 0.02
    assert clean(told, rows(held, training)).coverage == pytest.approx(1.0)


def test_an_idle_end_of_which_most_is_lost_is_unknown_however_well_the_days_before_were_seen() -> None:
    held, rng = allocation(24), random.Random(9)
    left = held.start + 19 * HOUR
    seen = rows(held, lambda ts: training(ts) if ts < left else {})
    assert judge(held, seen).labels == ("forgotten",)
    assert judge(held, [s for s in seen if s.ts < left or rng.random() < 0.2]).labels == ("unknown",)


@pytest.mark.parametrize(
    ("step", "right"), [(15, "hoarder"), (60, "hoarder"), (75, "unknown"), (300, "unknown")]
)
def test_above_a_minute_nothing_is_judged(step: float, right: str) -> None:
    held = allocation()
    seen = rows(held, lambda _: {}, step=step)
    assert judge(held, seen).labels == judge(replace(held, step_s=step), seen).labels == (right,)


def test_a_frozen_exporter_is_missing_telemetry() -> None:
    held = allocation()
    seen = rows(held, lambda ts: training(ts) if ts < held.start + HOUR else {})
    last = next(s for s in seen if s.ts > held.start + 1.5 * HOUR)
    frozen = [last._replace(ts=s.ts) if s.ts > last.ts else s for s in seen]
    assert judge(held, frozen).labels == ("unknown",)


def test_duplicates_late_and_foreign_rows_change_nothing() -> None:
    held = allocation()
    seen = rows(held, lambda ts: training(ts) if ts < held.start + HOUR else {})
    foreign = [seen[3]._replace(ts=held.start - 500), seen[3]._replace(ts=held.end + 500)]
    assert judge(held, [*reversed(seen), *seen[::7], *foreign]) == judge(held, seen)


def test_coverage_is_counted_before_holes_are_bridged() -> None:
    held = allocation(10)
    half = [s for s in rows(held, training) if (s.ts - held.start) % 1000 < 500]
    trace = clean(held, half)
    assert trace.coverage == pytest.approx(0.5, abs=0.06)
    assert trace.holes == []


def test_values_that_no_hardware_reads_are_missing() -> None:
    row = {
        "ts": "5",
        "sm_active": "nan",
        "dram_active": "17.0",
        "tensor_active": "-1",
        "power_w": "inf",
        "gpu_util": "50",
    }
    [found] = read_samples([row, {"ts": "soon"}, {}])
    assert (found.sm, found.dram, found.tensor, found.watts, found.util) == (None, None, None, None, 0.5)


@pytest.mark.exhaustive
def test_a_day_of_samples_is_judged_well_under_a_second() -> None:
    held = allocation(24)
    seen = rows(held, lambda ts: training(ts) if ts % 3600 < 600 else {"sm": 0.004})
    assert calm_ms(lambda: judge(held, seen), 500) < 500


@pytest.fixture(scope="module")
def scored() -> list[scoring.Scored]:
    return scoring.score_all(range(FIRST, FIRST + SEEDS))


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_hoarder_zombie_and_evasion_are_right_in_95_of_100(
    scored: list[scoring.Scored], record_property: Callable[[str, object], None]
) -> None:
    for source in ("scenarios", "sandbox"):
        for mark in scoring.marks(scored, source):
            record_property(
                f"{source} {mark.finding}", f"n={mark.count} p={mark.precision:.3f} r={mark.recall:.3f}"
            )
    marks = {m.finding: m for m in scoring.marks(scored)}
    # In the short form one mistake among few cases weighs more than 5 %.
    allowed = {f: max(1.0, 0.05 * marks[f].count) for f in ("hoarder", "zombie", "evasion")}
    assert {f: marks[f].count - marks[f].right <= n for f, n in allowed.items()} == dict.fromkeys(
        allowed, True
    )
    assert {f: marks[f].found - marks[f].right <= n for f, n in allowed.items()} == dict.fromkeys(
        allowed, True
    )


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_honest_work_is_hardly_ever_accused(scored: list[scoring.Scored]) -> None:
    honest = [s for s in scored if s.truth in ("healthy", "unknown")]
    accused = [s for s in honest if s.found in ("hoarder", "zombie", "evasion", "forgotten")]
    assert len(accused) <= 0.01 * len(honest) + 1, accused


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_nine_of_ten_oversized_jobs_get_the_right_size_and_none_too_little_memory(
    scored: list[scoring.Scored],
) -> None:
    count, right, too_small = scoring.sizing(scored)
    assert too_small == 0
    assert right >= 0.9 * count > 0
