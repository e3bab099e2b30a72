"""Behaviours and their physics: what telemetry says of work, waste and tricks."""

from __future__ import annotations

from statistics import mean

import pytest

from sandbox.fleet.behaviours import ANNOTATION, PREFIX, Behaviour, life, truth, truth_of
from sandbox.fleet.devices import Device, gpu_devices, node_gpus
from sandbox.fleet.load import Sample, device_watts, sample
from sandbox.fleet.spec import load_fleet

SEED = 11
HOURS = [t * 60.0 for t in range(30, 240, 3)]


def device(kind: str) -> Device:
    fleet = load_fleet("laptop")
    pool = fleet.pool_of("h100-0")
    assert pool is not None
    found = [d for gpu in node_gpus(fleet, "h100-0", pool, SEED) for d in gpu_devices(gpu)]
    return next(d for d in found if (d.instance.placement.profile.name if d.instance else "whole") == kind)


def day(behaviour: Behaviour, uid: str, kind: str = "whole") -> list[Sample]:
    told, held = truth(SEED, uid, behaviour), device(kind)
    found = [sample(told, t, held, hour=10 + t / 3600) for t in HOURS]
    return [s for s in found if s is not None]


@pytest.mark.parametrize("behaviour", [b for b in Behaviour if b is not Behaviour.SILENT])
def test_every_sample_stays_within_the_device(behaviour: Behaviour) -> None:
    held = device("3g.40gb")
    for number in range(20):
        for used in day(behaviour, f"pod-{number}", "3g.40gb"):
            assert all(
                0 <= v <= 1 for v in (used.sm, used.tensor, used.dram, used.busy, used.effort, used.clocked)
            )
            assert 0 <= used.memory_mib <= held.memory_mib


def test_the_same_seed_and_pod_give_the_same_walk_and_another_pod_another() -> None:
    assert day(Behaviour.TRAIN, "a") == day(Behaviour.TRAIN, "a")
    assert day(Behaviour.TRAIN, "a") != day(Behaviour.TRAIN, "b")


def test_parameters_are_drawn_so_that_no_two_pods_are_alike() -> None:
    drawn = {truth(SEED, str(n), Behaviour.DATALOADER_BOUND)["duty"] for n in range(50)}
    assert len(drawn) == 50


def test_a_keep_alive_looks_busy_to_nvidia_smi_and_does_nothing_on_the_processors() -> None:
    spinning = [n for n in range(40) if truth(SEED, str(n), Behaviour.KEEPALIVE)["variant"] <= 0.75]
    for number in spinning:
        used = day(Behaviour.KEEPALIVE, str(number))
        assert mean(s.busy for s in used) > 0.25
        assert max(s.sm for s in used) < 0.02
        assert all(s.tensor == 0 for s in used)


def test_one_spinning_block_weighs_more_on_a_small_slice_than_on_the_whole_gpu() -> None:
    uid = next(str(n) for n in range(40) if truth(SEED, str(n), Behaviour.KEEPALIVE)["variant"] <= 0.75)
    whole, slice_ = day(Behaviour.KEEPALIVE, uid), day(Behaviour.KEEPALIVE, uid, "1g.10gb")
    assert mean(s.sm for s in slice_) == pytest.approx(mean(s.sm for s in whole) * 132 / 16)


def test_sleeping_blocks_read_full_activity_at_nearly_parked_power() -> None:
    uid = next(str(n) for n in range(60) if truth(SEED, str(n), Behaviour.KEEPALIVE)["variant"] > 0.75)
    used, held = day(Behaviour.KEEPALIVE, uid), device("whole")
    assert mean(s.sm for s in used) > 0.25
    assert max(device_watts(s, held) for s in used) < 0.12 * held.gpu.model.max_watts


def test_training_with_broken_counters_is_betrayed_by_its_watts() -> None:
    uid = next(str(n) for n in range(400) if truth(SEED, str(n), Behaviour.TRAIN)["variant"] > 0.96)
    used, held = day(Behaviour.TRAIN, uid), device("whole")
    assert all(s.sm == s.tensor == s.dram == 0 for s in used)
    assert mean(device_watts(s, held) for s in used) > 0.3 * held.gpu.model.max_watts


def test_idle_hoarders_hold_memory_and_draw_no_power() -> None:
    for number in range(20):
        used = day(Behaviour.IDLE_HOARDER, str(number))
        assert all(s.sm == 0 and s.memory_mib > 0 for s in used)
        assert device_watts(used[-1], device("whole")) == 0


def test_a_leak_fills_the_memory_until_the_container_ends() -> None:
    uid = next(str(n) for n in range(40) if truth(SEED, str(n), Behaviour.LEAK)["host"] >= 0.5)
    told, held = truth(SEED, uid, Behaviour.LEAK), device("whole")
    ends = life(told, finite=False)
    first, last = (sample(told, t, held, hour=10) for t in (60.0, told["oom_after"]))
    assert first is not None
    assert last is not None
    assert last.memory_mib > 0.98 * held.memory_mib > first.memory_mib
    assert ends.ends_after == told["oom_after"]
    assert (ends.exit_code, "out of memory" in ends.last_words) == (1, True)


def test_a_silent_pod_gives_no_telemetry_at_all() -> None:
    assert day(Behaviour.SILENT, "a") == []


def test_a_slow_start_loads_for_minutes_before_it_is_ready() -> None:
    told, held = truth(SEED, "a", Behaviour.SLOW_START), device("whole")
    loading = sample(told, told["ready_after"] / 2, held, hour=12)
    assert loading is not None
    assert loading.sm == 0 < loading.memory_mib
    assert life(told, finite=False).ready_after >= 180


def test_an_annotation_fixes_what_would_be_drawn() -> None:
    def told(**fixed: str) -> dict[str, float]:
        named = {ANNOTATION: "idle-hoarder"} | {PREFIX + name: value for name, value in fixed.items()}
        pod = {"metadata": {"uid": "u", "annotations": named}}
        return dict(truth_of(SEED, pod).values)

    drawn = dict(truth(SEED, "u", Behaviour.IDLE_HOARDER).values)
    assert told() == drawn
    assert told(worked_for="0", memory="0.6") == {**drawn, "worked_for": 0.0, "memory": 0.6}
    assert told(worked_for="soon", memory="7", every="20") == drawn
