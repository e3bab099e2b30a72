"""Where a rule ends: rhythms that chance makes, the last second of a cell, columns that drop out."""

import random
from collections.abc import Callable
from itertools import accumulate

import pytest

from apps.metering.detector.judge import judge
from apps.metering.detector.trace import Allocation
from tests.metering.handmade import Read, Values, allocation, label, rows, training, verdict
from tests.metering.traces import HOUR


def lives(held: Allocation, life: float, pause: float, read: Callable[[float], Values]) -> Read:
    """A process that lives so long again and again, as `read` says by its age."""

    def story(ts: float) -> Values:
        age = (ts - held.start) % (life + pause)
        return read(age) | {"processes": 1} if age < life else {"processes": 0, "memory": 0.0}

    return story


def worked(memory: Callable[[float], float]) -> Callable[[float], Values]:
    return lambda age: training(age) | {"memory": memory(age)}


@pytest.mark.parametrize("life", [400.0, 900.0, 1500.0])
@pytest.mark.parametrize("keeps", [True, False])
def test_lives_of_minutes_with_xids_between_them_are_a_crash_loop(life: float, *, keeps: bool) -> None:
    """Whether the exporter shows an XID for a minute, or the last one for ever."""
    held = allocation(10)
    runs = lives(held, life, 300.0, worked(lambda _: 50_000.0))

    def story(ts: float) -> Values:
        number, age = divmod(ts - held.start, life + 300.0)
        code = 31 if life <= age < life + 90 else 0
        last = (31, 43)[int(number + (age >= life)) % 2] if ts > held.start + life else 0
        return runs(ts) | {"xid": last if keeps else code}

    assert label(held, story) == "crash-loop"
    assert (
        label(held, lambda ts: lives(held, life, 20.0, worked(lambda _: 50_000.0))(ts) | {"xid": 13})
        == "healthy"
    )


def test_a_service_of_many_lives_is_a_crash_loop_and_one_that_is_loaded_when_asked_is_not() -> None:
    held = allocation(24, kind="service")
    assert label(held, lives(held, 700.0, 60.0, worked(lambda _: 50_000.0))) == "crash-loop"
    assert label(held, lives(held, 700.0, 1500.0, worked(lambda _: 50_000.0))) == "healthy"
    sweep = allocation(24)
    assert label(sweep, lives(sweep, 700.0, 20.0, worked(lambda _: 50_000.0))) == "healthy"


def test_a_pause_of_the_kubelets_is_longer_as_samples_a_minute_apart_see_it() -> None:
    held = allocation(24, kind="service")
    crashes = rows(held, lives(held, 900.0, 345.0, worked(lambda _: 50_000.0)), step=60.0)
    assert str(judge(held, crashes).labels[0]) == "crash-loop"
    asked = rows(held, lives(held, 900.0, 600.0, worked(lambda _: 50_000.0)), step=60.0)
    assert str(judge(held, asked).labels[0]) == "healthy"


@pytest.mark.parametrize("kind", ["job", "service"])
def test_restarts_out_of_memory_are_undersized_and_growth_to_the_ceiling_is_a_leak(kind: str) -> None:
    """Both end at the ceiling: what differs is how they come there."""
    held = allocation(10, kind=kind)
    spikes = lives(held, 1200.0, 120.0, worked(lambda age: 79_000.0 if age > 1100 else 62_000.0))
    assert label(held, spikes) == "undersized"
    grown = lives(held, 1200.0, 120.0, worked(lambda age: 20_000.0 + 60_500.0 * age / 1200.0))
    assert label(held, grown) == "memory-leak"
    assert label(held, lives(held, 200.0, 200.0, worked(lambda _: 80_000.0))) == "undersized"
    assert label(held, lives(held, 200.0, 200.0, worked(lambda _: 40_000.0))) == "crash-loop"


def test_probes_of_a_service_that_sleeps_are_no_evasion() -> None:
    held = allocation(30, kind="service", idle_window_s=3600)
    probe: Values = {"sm": 0.002, "util": 0.01, "watts": 85.0}

    def asked(ts: float) -> bool:
        return (ts - held.start) % (9 * HOUR) < HOUR

    assert label(held, lambda ts: training(ts) if asked(ts) else probe) == "scale-to-zero"
    assert label(held, lambda _: probe) == "evasion"
    held = allocation(30, idle_window_s=3600)
    assert label(held, lambda ts: training(ts) if asked(ts) else probe) == "evasion"


def test_a_few_requests_that_happen_to_keep_time_between_busy_hours_are_no_clock() -> None:
    """Of six intervals of chance five often fit one period: a day of requests is many such stretches."""
    held = allocation(kind="service")
    asked = list(accumulate((720, 780, 900, 240, 900, 1620), initial=held.start + HOUR + 900))

    def story(ts: float) -> Values:
        if not held.start + HOUR <= ts < asked[-1] + 1500:
            return training(ts)
        return {"sm": 0.05, "dram": 0.05, "util": 0.1} if any(0 <= ts - at < 30 for at in asked) else {}

    assert (label(held, story), verdict(held, story).idle) == ("healthy", ())


def test_a_last_cell_in_the_first_sample_of_ten_minutes_is_use() -> None:
    held = allocation()
    last = held.start + 3 * HOUR + 10

    def story(ts: float) -> Values:
        return training(ts) if ts < last - 300 or last <= ts < last + 30 else {}

    [(since, _)] = verdict(held, story).idle
    assert 0 <= since - last <= 60


@pytest.mark.parametrize("column", ["processes", "memory"])
def test_cells_that_drop_out_now_and_then_begin_no_new_life_of_a_process(column: str) -> None:
    held = allocation()

    def story(ts: float) -> Values:
        working = ts < held.start + 2 * HOUR
        read = (training(ts) if working else {"memory": 60_000.0}) | {"processes": int(working)}
        return read | ({column: None} if ts % 700 < 60 else {})

    assert label(held, story) == "zombie"
    assert label(held, lambda ts: training(ts) | ({column: None} if ts % 700 < 60 else {})) == "healthy"


def test_blocks_sleep_on_though_a_cell_is_empty_or_a_small_boards_watts_jump() -> None:
    """Two such samples in ten minutes woke the rest: what sleeps is told by all of them."""
    held = allocation(sms=42, sharing="mig", share=3 / 7, total_mib=40192, tdp_w=400, model="A100 80GB")
    asleep: Values = {"sm": 0.95, "occupancy": 0.015, "watts": 170.0, "memory": 4000.0}

    def story(ts: float) -> Values:
        return asleep | {"dram": None, "occupancy": None} if ts % 200 < 30 else asleep

    assert label(held, story) == "evasion"
    small = allocation(sms=58, total_mib=23034, tdp_w=72, model="L4")

    def jumps(ts: float) -> Values:
        return {"sm": 0.93, "util": 1.0, "watts": 36.0 if ts % 120 < 60 else 26.0}

    assert label(small, jumps) == "evasion"


def test_what_counters_read_without_a_process_is_noise() -> None:
    rng, held = random.Random(6), allocation(kind="notebook")

    def story(ts: float) -> Values:
        read = {"sm": rng.uniform(0.0, 0.02) * (rng.random() < 0.1), "memory": 60_000.0, "processes": 0}
        return training(ts) if ts < held.start + HOUR else read

    assert label(held, story) == "zombie"


def test_noise_rounded_to_thousandths_is_no_use() -> None:
    rng, held = random.Random(4), allocation(kind="notebook")
    assert label(held, lambda _: {"sm": rng.choice((0.001, 0.0, 0.0, 0.0, 0.0))}) == "hoarder"


def blips(rng: random.Random, share: float) -> float:
    """What multiprocessors at rest read in a part of the samples, by themselves."""
    return min(0.002, rng.expovariate(1 / 0.0003)) if rng.random() < share else 0.0


@pytest.mark.parametrize("share", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("kind", ["job", "notebook"])
def test_multiprocessors_that_read_a_little_by_themselves_are_idle(kind: str, share: float) -> None:
    rng, held = random.Random(5), allocation(20, kind=kind)

    def story(_: float) -> Values:
        return {"sm": blips(rng, share), "dram": blips(rng, 0.1), "memory": 30_000.0}

    assert label(held, story) == "hoarder"


def test_a_light_notebook_is_not_sleepless_by_what_its_counters_read_at_night() -> None:
    rng, held = random.Random(7), allocation(40, kind="notebook", idle_window_s=4 * 3600)
    cells = [held.start + rng.random() * 40 * HOUR for _ in range(120)]

    def by_day(ts: float) -> bool:
        return 8 <= (ts / HOUR) % 24 < 20

    def story(ts: float) -> Values:
        cell = by_day(ts) and any(0 <= ts - at < 60 for at in cells)
        read: Values = {"sm": rng.uniform(0.1, 0.4), "dram": 0.1, "util": 0.8, "watts": 250.0} if cell else {}
        return {"sm": blips(rng, 0.1), "dram": blips(rng, 0.1), "memory": 30_000.0} | read

    assert label(held, story) == "healthy"


def test_small_requests_that_read_memory_are_no_noise() -> None:
    rng, held = random.Random(8), allocation(20, kind="service")

    def story(_: float) -> Values:
        asked = rng.expovariate(1 / 0.0006) if rng.random() < 0.1 else 0.0
        return {"sm": asked, "dram": 0.6 * asked, "memory": 30_000.0}

    assert label(held, story) == "healthy"


def test_small_copies_by_the_clock_are_a_keep_alive_though_sm_reads_noise() -> None:
    rng = random.Random(2)
    held = allocation()

    def copies(_: float) -> Values:
        return {"sm": round(abs(rng.gauss(0, 0.001)), 4), "dram": rng.uniform(0.0028, 0.0032)}

    assert label(held, copies) == "evasion"


def test_a_loop_nearly_as_fast_as_the_samples_is_even() -> None:
    """Every sample meets a kernel, now and then two: requests of that size leave gaps."""
    rng, held = random.Random(3), allocation(kind="notebook")
    assert label(held, lambda _: {"sm": rng.choice((0.0067, 0.0067, 0.0067, 0.0134))}) == "evasion"


def test_a_slice_without_a_context_does_nothing_whatever_its_board_draws() -> None:
    held = allocation(sms=42, sharing="mig", share=3 / 7, total_mib=40192, tdp_w=400, model="A100 80GB")
    nothing: Values = {"memory": 0.0, "processes": 0, "util": None, "watts": 160.0}
    assert label(held, lambda _: nothing) == "hoarder"


def test_a_job_whose_watts_are_read_before_its_counters_may_starve() -> None:
    """It works by turns of a minute; a sample at the begin of one has full watts, and counters of before."""
    held = allocation()

    def story(ts: float) -> Values:
        if ts % 3000 < 30:
            return {"util": 1.0, "watts": 500.0, "memory": 50_000.0}
        share = 0.4 if ts % 120 < 60 else 0.02
        return {"sm": share, "tensor": share / 2, "dram": share / 2, "util": 0.3, "memory": 50_000.0}

    assert label(held, story) == "data-starved"


@pytest.mark.parametrize(
    ("hours", "left", "memory", "right"),
    [(8, 15, 20_000.0, "hoarder"), (2.5, 15, 20_000.0, "unknown"), (8, 5, 20_000.0, "unknown"),
     (8, 15, 60_000.0, "unknown")],
)  # fmt: skip
def test_a_hole_in_the_last_hour_hides_no_end_of_an_idleness_that_was_long_and_goes_on(
    hours: float, left: float, memory: float, right: str
) -> None:
    """35 minutes that nobody saw: it idled for hours before, and does so with the same memory after."""
    held = allocation(hours)
    ends = held.end - left * 60
    seen = [
        row._replace(memory=memory if row.ts >= ends else row.memory)
        for row in rows(held, lambda _: {})
        if not ends - 35 * 60 < row.ts < ends
    ]
    assert str(judge(held, seen).labels[0]) == right


def test_a_second_of_full_load_every_ten_minutes_is_no_probe_of_a_service() -> None:
    """The kubelet's probes come every few seconds and take hardly anything of any sample."""
    held = allocation(30, kind="service", idle_window_s=3600)

    def story(ts: float) -> Values:
        age = ts - held.start
        if age < HOUR or 3 * HOUR < age < 3.2 * HOUR or 5 * HOUR < age < 5.2 * HOUR:
            return training(ts)
        return {"sm": 0.032, "tensor": 0.02, "dram": 0.013} if age % 600 < 30 else {}

    assert label(held, story) == "evasion"
