"""What counters and watts say of an allocation that is not its own doing."""

import random

from tests.metering.handmade import Read, Values, allocation, label
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
