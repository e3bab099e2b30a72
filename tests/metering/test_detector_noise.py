"""What counters and watts say of an allocation that is not its own doing."""

import random
from collections.abc import Callable

import pytest

from apps.metering.detector.noise import Reading, alone
from apps.metering.detector.trace import Allocation
from tests.metering.handmade import Read, Values, allocation, label, rows
from tests.metering.traces import HOUR


def test_a_neighbour_that_comes_later_does_not_hide_that_the_work_ended() -> None:
    """Watts are compared where the counters end: they fall there, or the slice had rested before."""
    held = allocation(sms=16, sharing="mig", share=1 / 7, total_mib=9984)
    left = held.start + 6 * HOUR
    works: Values = {"sm": 0.8, "tensor": 0.3, "dram": 0.4, "util": None, "watts": 245.0}

    def story(rest: float, idle: float) -> Read:
        """Work up to `left` but for `rest` seconds before its last; `idle` watts, then a neighbour's."""
        later: Values = {"util": None, "watts": 420.0}
        ended: Values = {"util": None, "watts": idle}

        def read(ts: float) -> Values:
            if ts > left + 1200:
                return later
            return works if ts < left - rest or left - 60 < ts < left else ended

        return read

    assert label(held, story(0, 190.0)) == "forgotten"
    assert label(held, story(900, 245.0)) == "forgotten"


def test_watts_that_are_read_between_the_bursts_of_a_slice_do_not_hide_that_it_ended() -> None:
    """Counters are averages, watts a moment: under half of the rows meet a burst."""
    held = allocation(sms=16, sharing="mig", share=1 / 7, total_mib=9984)
    left = held.start + 6 * HOUR
    works: Values = {"sm": 0.4, "tensor": 0.1, "dram": 0.2, "util": None}

    def read(ts: float) -> Values:
        if ts > left:
            return {"util": None, "watts": 245.0}
        return works | {"watts": 345.0 if (ts - held.start) % 150 < 60 else 245.0}

    assert label(held, read) == "forgotten"


def test_kernels_that_momentary_counters_miss_are_no_loop_too_small_for_them() -> None:
    """GPU_UTIL meets each burst; counters that are read for a moment missed some all the time, and averages
    none. Nothing but a loop is so small that averages never see it.
    """
    held = allocation(hours=9.0)
    asked: Values = {"sm": 0.7, "tensor": 0.2, "dram": 0.4, "util": 0.4, "watts": 340.0}

    def story(missed: Values) -> Read:
        rng = random.Random(5)

        def read(ts: float) -> Values:
            if ts > held.start + 6.5 * HOUR:
                return {"util": 0.35} if ts % 1800 // 30 in (7, 31) else {"util": 0.0}
            return rng.choices((asked, missed, {"util": 0.0}), (2, 2, 96))[0]

        return read

    assert label(held, story({"util": 0.35})) == "healthy"
    assert label(held, story(asked)) == "evasion"


def test_memory_that_reads_a_little_before_anything_could_run_is_no_loop() -> None:
    """Nothing runs without a context: what is read then is read by itself, however even it is."""
    held = allocation()

    def story(bare: float) -> Read:
        rng = random.Random(5)

        def read(ts: float) -> Values:
            alone = ts < held.start + 300
            dram = rng.gauss(0.0012, 0.0003) * (bare if alone else 1.0)
            return {"dram": max(0.0, dram), "memory": 0.0 if alone else 9000.0}

        return read

    assert label(held, story(1.0)) == "hoarder"
    assert label(held, story(0.0)) == "evasion"


def spells(rng: random.Random, held: Allocation) -> Callable[[float], float]:
    """What multiprocessors read by themselves for minutes, with longer pauses between."""
    found, at = [], held.start + 1200.0
    while at < held.end:
        found.append((at, at := at + rng.uniform(120, 1800)))
        at += rng.uniform(3000, 6000)

    def read(ts: float) -> float:
        return round(abs(rng.gauss(0, 0.0012)), 6) if any(a <= ts < b for a, b in found) else 0.0

    return read


def one_block(rng: random.Random, sm: float, held: Allocation) -> Values:
    """A cell whose only block takes as long as to read this on average; its few MB stay in the cache."""
    seconds = sm * held.sms * 30.0
    read: Values = {"sm": sm, "dram": round(2e6 / (30.0 * 400e9), 6)}
    # The last second is read: a slice has none.
    met = min(1.0, seconds) if rng.random() < (seconds + 1) / 30 and sm else 0.0
    return read | {"util": None if held.sharing == "mig" else round(met, 2)}


def test_spells_of_a_little_sm_activity_are_told_from_cells_of_one_block_by_gpu_util_alone() -> None:
    """A block is one of so many multiprocessors and takes long for so little, so GPU_UTIL meets it. On a
    slice, where nobody tells it, both are the same rows: in doubt somebody works. So where no pipe is read.
    """
    board = allocation(kind="notebook", idle_window_s=7200.0)
    part = allocation(
        kind="notebook", idle_window_s=7200.0, sms=16, sharing="mig", share=1 / 7, total_mib=9984
    )

    def by_itself(held: Allocation, seed: int) -> Read:
        read = spells(random.Random(seed), held)
        util = None if held.sharing == "mig" else 0.0
        return lambda ts: {"sm": read(ts), "util": util}

    def by_hand(held: Allocation, seed: int) -> Read:
        read, rng = spells(random.Random(seed), held), random.Random(seed)
        return lambda ts: one_block(rng, read(ts), held)

    noise = by_itself(board, 0)
    assert [label(board, by_itself(board, seed)) for seed in range(5)] == ["hoarder"] * 5
    assert [label(board, by_hand(board, seed)) for seed in range(5)] == ["healthy"] * 5
    assert label(board, lambda ts: noise(ts) | {"tensor": None, "dram": None}) == "healthy"
    assert rows(part, by_itself(part, 1)) == rows(part, by_hand(part, 1))
    assert label(part, by_hand(part, 1)) == "healthy"


def noisy(
    count: int = 400, *, sm: float = 0.001, util: float | None = 0.0, beside: float = 0.0
) -> list[Reading]:
    return [Reading(sm, beside, util)] * count


@pytest.mark.parametrize(
    ("readings", "step"),
    [
        (noisy(util=None), 30.0),
        (noisy(beside=0.0001), 30.0),
        (noisy(80), 30.0),
        (noisy(sm=0.0002), 30.0),
        (noisy(393) + noisy(7, util=0.03), 60.0),
        (noisy() + noisy(9, sm=0.5, beside=0.3), 30.0),
    ],
)
def test_gpu_util_that_need_not_have_met_a_kernel_proves_nothing(
    readings: list[Reading], step: float
) -> None:
    """Nobody tells it, memory was read, too few rows, kernels too short for a percent of a second, as many
    met as chance has it, or nothing met under work.
    """
    assert alone(readings, step) == 0.0


def test_gpu_util_that_meets_the_work_beside_proves_that_nothing_else_ran() -> None:
    works = noisy(9, sm=0.5, beside=0.3, util=0.9)
    begins = noisy(1, util=0.5) + works
    assert alone(noisy() + works, 30.0) == alone(noisy() + 5 * begins, 30.0) > 0.001
