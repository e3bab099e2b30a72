"""What the agent reads of GPUs and MIG devices: ratios of the window, the unknown said with its reason."""

from collections.abc import Iterator

import pynvml
import pytest

from agent import fields
from agent.collector import Collector, ReplacedError
from agent.fields import (
    DRAM_ACTIVE,
    FB_USED,
    GPU_UP,
    GPU_UTIL,
    PROCESSES,
    SM_ACTIVE,
    TENSOR_ACTIVE,
    XID_ERRORS,
)
from agent.session import Settings
from agent.snapshot import Snapshot
from tests.agent.cards import DRAM, SM, TENSOR, Card, Library, Part
from tests.agent.standin import installed

H200 = "GPU-0a0a0a0a-0000-0000-0000-000000000000"
SLICED = "GPU-1b1b1b1b-0000-0000-0000-000000000001"


@pytest.fixture
def library() -> Iterator[Library]:
    with installed(Library([Card(H200, 0)])) as found:
        yield found


def collector(library: Library, **settings: object) -> Collector:
    return Collector(Settings(host="node-1", **settings), clock=lambda: library.now)  # type: ignore[arg-type]


def values(snapshot: Snapshot, row: int = 0) -> dict[str, float]:
    return snapshot.rows[row].values


def why(snapshot: Snapshot, field: fields.Field) -> set[tuple[str, str]]:
    return {(gap.where, gap.why) for gap in snapshot.gaps if field.name in gap.fields}


def test_one_spinning_block_reads_as_one_of_132_multiprocessors(library: Library) -> None:
    card = library.cards[0]
    card.smi, card.rates = 100, {SM: 100 / 132, TENSOR: 0.0, DRAM: 0.0}
    agent = collector(library)
    first = agent.collect()
    library.advance(1)
    second = agent.collect()
    assert SM_ACTIVE.name not in values(first)
    assert values(second)[GPU_UTIL.name] == 100
    assert values(second)[SM_ACTIVE.name] == pytest.approx(1 / 132)
    assert values(second)[TENSOR_ACTIVE.name] == 0.0


def test_a_ratio_is_the_mean_of_the_window_whenever_it_is_asked(library: Library) -> None:
    """3 s of full load in every 30 s reads 10 %, at each of the seconds, not 100 % or 0 %."""
    card, agent, seen = library.cards[0], collector(library, window=30.0), []
    for second in range(120):
        card.rates = {SM: 100.0 if second % 30 < 3 else 0.0}
        library.advance(1)
        seen.append(values(agent.collect()).get(SM_ACTIVE.name))
    full = [value for value in seen[31:] if value is not None]
    assert len(full) == 89
    assert full == pytest.approx([0.1] * 89)


def test_a_window_keeps_no_more_samples_than_it_needs(library: Library) -> None:
    agent = collector(library, window=30.0)
    for _ in range(200):
        library.advance(1)
        agent.collect()
    assert len(library.samples) <= 32
    agent.close()
    assert library.samples == {}
    assert library.started == 0


def test_energy_memory_and_processes_come_in_dcgm_units(library: Library) -> None:
    card = library.cards[0]
    card.processes = [(4711, 40_000), (4712, 512)]
    found = collector(library).collect()
    assert values(found)[FB_USED.name] == 1024
    assert values(found)[fields.FB_FREE.name] == 143771 - 1024 - 500
    assert values(found)[fields.FB_RESERVED.name] == 500
    assert values(found)[fields.POWER_USAGE.name] == 75.5
    assert values(found)[fields.ENERGY.name] == 1_000_000
    assert values(found)[PROCESSES.name] == 2
    assert [(p.pid, p.memory_mib) for p in found.rows[0].processes] == [(4711, 40_000), (4712, 512)]


def test_rates_are_bytes_per_second(library: Library) -> None:
    library.cards[0].rates = {pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 2.0}
    agent = collector(library)
    agent.collect()
    library.advance(5)
    assert values(agent.collect())["DCGM_FI_PROF_PCIE_RX_BYTES"] == 2 * 1024 * 1024


def test_the_process_count_is_unknown_without_the_hosts_process_ids(library: Library) -> None:
    found = collector(library, counts_processes=False).collect()
    assert PROCESSES.name not in values(found)
    assert [reason for _, reason in why(found, PROCESSES)] == [
        "the agent does not share the host's process ids (hostPID)"
    ]


def sliced(library: Library, *parts: Part) -> Card:
    library.cards.append(Card(SLICED, 1, parts=list(parts)))
    return library.cards[1]


def test_a_mig_device_has_its_own_activity_and_the_board_s_power(library: Library) -> None:
    small, large = Part("MIG-a", "1g.18gb", 7, rates={SM: 40.0}), Part("MIG-b", "3g.71gb", 2, start=4)
    sliced(library, small, large)
    agent = collector(library)
    agent.collect()
    library.advance(10)
    found = agent.collect()
    assert [row.name for row in found.rows] == ["GPU 0", "GPU 1 MIG 7", "GPU 1 MIG 2"]
    assert [values(found, at)[SM_ACTIVE.name] for at in (1, 2)] == pytest.approx([0.4, 0.0])
    assert GPU_UTIL.name not in values(found, 1)
    assert values(found, 1)[fields.POWER_USAGE.name] == values(found, 2)[fields.POWER_USAGE.name] == 75.5
    assert found.rows[1].instance is not None
    assert found.rows[1].instance.profile == "1g.18gb"


def test_a_recut_gpu_instance_does_not_inherit_the_counters_of_the_old_one(library: Library) -> None:
    """The same GPU instance id, cut anew: its first ratio covers only its own time."""
    card = sliced(library, Part("MIG-old", "1g.18gb", 7, rates={SM: 100.0}))
    agent = collector(library)
    for _ in range(20):
        library.advance(1)
        agent.collect()
    card.parts = [Part("MIG-new", "2g.35gb", 7)]
    recut = agent.collect()
    assert SM_ACTIVE.name not in values(recut, 1)
    library.advance(1)
    assert values(agent.collect(), 1)[SM_ACTIVE.name] == 0.0
    card.parts = None
    assert [row.name for row in agent.collect().rows] == ["GPU 0", "GPU 1"]


def test_compute_instances_that_share_counters_have_none_of_their_own(library: Library) -> None:
    sliced(library, Part("MIG-a", "1c.3g.71gb", 2, 0), Part("MIG-b", "1c.3g.71gb", 2, 1))
    agent = collector(library)
    agent.collect()
    library.advance(1)
    found = agent.collect()
    assert [row.name for row in found.rows[1:]] == ["GPU 1 MIG 2.0", "GPU 1 MIG 2.1"]
    assert SM_ACTIVE.name not in values(found, 1)
    assert FB_USED.name in values(found, 1)
    assert {reason for _, reason in why(found, SM_ACTIVE)} == {
        "its GPU instance has several compute instances, which share the counters"
    }


def test_an_old_card_says_which_fields_it_lacks_and_keeps_the_others(library: Library) -> None:
    library.cards[0] = Card(
        H200,
        0,
        name="Tesla V100",
        gpm=False,
        refuse={"nvmlDeviceGetRemappedRows": pynvml.NVML_ERROR_NOT_SUPPORTED, "memory temperature": 3},
    )
    library.absent = {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons"}
    agent = collector(library)
    agent.collect()
    library.advance(1)
    found = agent.collect()
    assert values(found)[GPU_UP.name] == 1
    assert values(found)[FB_USED.name] == 1524
    assert fields.FB_RESERVED.name not in values(found)
    assert values(found)[fields.CLOCK_REASONS.name] == pynvml.nvmlClocksThrottleReasonSwPowerCap
    assert why(found, SM_ACTIVE) == {
        ("GPU 0", "this card has no GPM, which begins with Hopper; a DCGM exporter can measure it")
    }
    assert why(found, fields.REMAP_FAILURE) == {("GPU 0", "this card or its mode does not have it")}
    assert why(found, fields.MEMORY_TEMP) == {("GPU 0", "this card or its mode does not have it")}


def test_missing_rights_leave_a_gap_and_are_asked_for_again_after_a_minute(library: Library) -> None:
    library.cards[0].refuse = {"nvmlGpmSampleGet": pynvml.NVML_ERROR_NO_PERMISSION}
    agent = collector(library)
    for _ in range(10):
        library.advance(1)
        found = agent.collect()
    assert why(found, SM_ACTIVE) == {("GPU 0", "the driver refuses it without more rights")}
    assert library.calls["nvmlGpmSampleGet"] == 1
    library.cards[0].refuse = {}
    for _ in range(60):
        library.advance(1)
        found = agent.collect()
    assert SM_ACTIVE.name in values(found)
    assert found.gaps == ()


def test_a_metric_that_the_card_lacks_or_that_is_no_ratio_is_unknown_alone(library: Library) -> None:
    card = library.cards[0]
    card.refuse_metrics = {DRAM: pynvml.NVML_ERROR_NOT_SUPPORTED}
    card.rates = {SM: 5000.0, TENSOR: 103.0}
    agent = collector(library)
    agent.collect()
    library.advance(1)
    found = agent.collect()
    assert DRAM_ACTIVE.name not in values(found)
    assert SM_ACTIVE.name not in values(found)
    assert values(found)[TENSOR_ACTIVE.name] == 1.0
    assert why(found, SM_ACTIVE) == {("GPU 0", "the counters say 5000, which cannot be")}


def test_a_lost_gpu_keeps_its_row_without_values_and_comes_back(library: Library) -> None:
    library.cards.append(Card("GPU-2", 1))
    agent = collector(library)
    agent.collect()
    library.xids.append((library.cards[0], 79, None))
    library.cards[0].refuse = {"*": pynvml.NVML_ERROR_GPU_IS_LOST}
    library.advance(1)
    lost = agent.collect()
    assert values(lost) == {GPU_UP.name: 0.0, XID_ERRORS.name: 79.0}
    assert ("GPU 0", "the GPU has fallen off the bus") in {(gap.where, gap.why) for gap in lost.gaps}
    assert values(lost, 1)[GPU_UP.name] == 1.0
    library.cards[0].refuse = {}
    library.advance(6)
    back = agent.collect()
    assert values(back)[GPU_UP.name] == 1.0
    assert SM_ACTIVE.name not in values(back)
    assert back.gaps == ()


def test_an_xid_is_of_the_gpu_or_of_the_instance_that_caused_it(library: Library) -> None:
    card = sliced(library, Part("MIG-a", "1g.18gb", 7), Part("MIG-b", "1g.18gb", 8))
    agent = collector(library)
    assert values(agent.collect())[XID_ERRORS.name] == 0
    library.xids += [(card, 31, 8), (library.cards[0], 94, None)]
    found = agent.collect()
    assert [values(found, at)[XID_ERRORS.name] for at in range(3)] == [94, 0, 31]


def test_a_driver_restart_begins_anew_with_renumbered_devices(library: Library) -> None:
    library.cards.append(Card("GPU-2", 1))
    agent = collector(library)
    agent.collect()
    library.code = pynvml.NVML_ERROR_UNINITIALIZED
    gone = agent.collect()
    assert gone.rows == ()
    assert [gap.why for gap in gone.gaps] == ["the driver was unloaded"]
    library.code, library.cards[:] = 0, [library.cards[1], library.cards[0]]
    library.samples.clear()
    library.advance(1)
    back = agent.collect()
    assert [row.gpu.uuid for row in back.rows] == ["GPU-2", H200]
    assert SM_ACTIVE.name not in values(back)


def test_a_driver_of_another_version_ends_the_process(library: Library) -> None:
    agent = collector(library)
    agent.collect()
    library.code = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with pytest.raises(ReplacedError, match="another version"):
        agent.collect()


def test_a_gap_is_logged_once(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    library.cards[0].gpm = False
    agent = collector(library)
    for _ in range(5):
        agent.collect()
    assert len([r for r in caplog.records if "no GPM" in r.getMessage()]) == 1
