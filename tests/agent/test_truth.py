"""The harness for a real GPU reads, judges and can fail; the kernels themselves need the GPU."""

import time

import pytest

from tests.agent.processes import started, wait_for
from tests.gpu import kernels, truth
from tests.gpu.truth import DRAM, PROCESSES, SCENES, SM, SMI, TENSOR, Scene


def test_every_load_of_a_scene_exists() -> None:
    from tests.gpu.loads import LOADS

    assert {name for scene in SCENES for name in scene.loads} == set(LOADS)


def test_operations_become_a_ratio_of_what_the_multiprocessors_can_do() -> None:
    """990 TFLOP/s on 132 SMs at 1.83 GHz is all there is."""
    assert truth.expected([{"flops_per_second": 989.4e12, "sms": 132}], 1830.0) == pytest.approx(
        1.0, abs=0.001
    )
    assert truth.expected([{"truth": 1 / 132}], 1980.0) == 1 / 132
    assert truth.expected([], 1980.0) == 0.0


def test_a_wrong_or_missing_figure_is_told() -> None:
    spinning = next(scene for scene in SCENES if scene.loads == ("one_block",))
    right = {SM: 1 / 132, SMI: 100.0, TENSOR: 0.0}
    assert list(truth.wrong(spinning, 1 / 132, right)) == []
    assert list(truth.wrong(spinning, 1 / 132, {**right, PROCESSES: 1.0})) == []
    assert len(list(truth.wrong(spinning, 1 / 132, {**right, PROCESSES: 3.0}))) == 1
    assert "is 1.0000, and 0.0076 is true" in next(truth.wrong(spinning, 1 / 132, {**right, SM: 1.0}))
    assert [words.partition(" is ")[0] for words in truth.wrong(spinning, 1 / 132, {})] == [SM, SMI, TENSOR]


def test_the_keep_alive_is_told_from_nothing_at_all() -> None:
    burst = next(scene for scene in SCENES if scene.loads == ("burst",))
    assert list(truth.wrong(burst, 0.0025, {SM: 0.0025})) == []
    assert len(list(truth.wrong(burst, 0.0025, {SM: 0.0}))) == 1


@pytest.mark.programs
def test_a_scene_is_read_from_a_running_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is half busy: the scene without load must fail over it, with the figures it served."""
    monkeypatch.setattr(truth, "WINDOW", 0.5)
    monkeypatch.setattr(truth, "EXTRA", 0.5)
    with started("--interval", "0.2", "--window", "0.5", "--socket", "") as (process, address):
        wait_for(address, SM)
        began = time.monotonic()
        found = truth.run(Scene("nothing", (), SM), f"{address}/metrics")
        assert time.monotonic() - began >= 1.5
        assert truth.peak_mib(process.pid) > 10
        assert truth.cpu_seconds(process.pid) > 0
    assert [found.seen[name] for name in (SM, TENSOR, DRAM)] == pytest.approx([0.5, 0.25, 0.3], abs=0.05)
    assert len(found.wrong) == 1
    report = truth.report([found], 0.004, 40.0)
    assert "| nothing | DCGM_FI_PROF_SM_ACTIVE | 0.0000 | 0.5" in report
    assert "WRONG, nothing" in report


def test_the_kernels_are_whole_text_for_hopper() -> None:
    text = kernels.module()
    assert text.endswith(b"}\n\0")
    assert text.count(b"{") == text.count(b"}")
    assert text.count(b"wgmma.mma_async") == kernels.BATCH
    assert b".target sm_90a" in text
