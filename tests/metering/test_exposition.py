"""The exporter's text: what is read, what is missing, what is kept aside."""

import math

import pytest

from apps.metering.telemetry.rules.sources import exposition, fields
from apps.metering.telemetry.rules.sources.limits import MOST_SERIES
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import COLUMNS, Reading
from apps.metering.telemetry.rules.sources.scrape import Exporter, Scrape
from sandbox.fleet import dcgm
from sandbox.fleet.devices import gpu_devices, node_gpus
from sandbox.fleet.load import Sample
from sandbox.fleet.spec import load_fleet
from sandbox.fleet.telemetry import Board
from sandbox.fleet.telemetry import Reading as Shown

GPU = "GPU-11111111-2222-3333-4444-555555555555"
NOON = 1_763_000_000_000_000


def labels(uuid: str = GPU, **more: str) -> str:
    told = {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA L4", "Hostname": "node-1", **more}
    return ",".join(f'{name}="{value}"' for name, value in told.items())


def line(name: str, value: object, uuid: str = GPU, **more: str) -> str:
    return f"{name}{{{labels(uuid, **more)}}} {value}\n"


def read(text: str, exporter: Exporter | None = None) -> Scrape:
    return (exporter or Exporter("node-1", LabelNames())).read(text, NOON)


def values(reading: Reading) -> dict[str, int]:
    told = dict(zip(COLUMNS, reading.values, strict=True))
    return {name: value for name, value in told.items() if value is not None}


def only(scrape: Scrape) -> dict[str, int]:
    assert len(scrape.readings) == 1
    return values(scrape.readings[0])


def kinds(scrape: Scrape) -> list[str]:
    return [each.kind for each in scrape.troubles]


def test_units_are_those_of_the_columns() -> None:
    text = (
        line("DCGM_FI_PROF_SM_ACTIVE", "0.540600")
        + line("DCGM_FI_DEV_POWER_USAGE", "71.5")
        + line("DCGM_FI_DEV_FB_USED", 1000)
        + line("DCGM_FI_DEV_FB_FREE", 21000)
        + line("DCGM_FI_DEV_FB_RESERVED", 500)
        + line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 123456789012)
        + line("DCGM_FI_PROF_NVLINK_TX_BYTES", 5)
        + line("DCGM_FI_PROF_NVLINK_RX_BYTES", 7)
        + line("DCGM_FI_DEV_GPU_UTIL", 98)
    )
    assert only(read(text)) == {
        "sm_active": 540_600, "power_mw": 71_500, "memory_used_mib": 1000, "memory_total_mib": 22_500,
        "energy_mj": 123_456_789_012, "nvlink": 12, "smi": 98,
    }  # fmt: skip
    assert read(text).troubles == []


def test_the_sandbox_exporter_is_read_as_it_means() -> None:
    fleet = load_fleet("laptop")
    node, pool = next((n, p) for n, p in fleet.node_pools() if p.sharing.mode.value == "mig")
    gpu = next(gpu for gpu in node_gpus(fleet, node, pool, 7) if gpu.instances)
    devices = list(gpu_devices(gpu))
    used = Sample(sm=0.25, dram=0.5, tensor=0.125, occupancy=0.1, busy=1.0, memory_mib=700.0)
    shown = tuple(Shown(device, used, None) for device in devices)
    board = Board(gpu=gpu, readings=shown, watts=210.5, energy_mj=9e6, celsius=40, sm_clock=900, xid=0)
    scrape = read(dcgm.exposition(fleet, [board]))
    assert scrape.troubles == []
    assert len(scrape.readings) == len(devices)
    for device, reading in zip(devices, scrape.readings, strict=True):
        assert device.instance is not None
        assert reading.device.uuid == gpu.uuid
        assert reading.device.gpu_instance == device.instance.placement.instance_id
        assert reading.device.profile == device.instance.placement.profile.name
        told = values(reading)
        assert (told["sm_active"], told["dram_active"], told["tensor_active"]) == (250_000, 500_000, 125_000)
        assert told["memory_total_mib"] == pytest.approx(device.memory_mib, abs=2)
        assert "smi" not in told


def test_nvidia_smis_figure_is_not_taken_of_an_instance() -> None:
    text = line("DCGM_FI_DEV_GPU_UTIL", 100, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    text += line("DCGM_FI_PROF_SM_ACTIVE", 0.1, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    assert only(read(text)) == {"sm_active": 100_000}


@pytest.mark.parametrize(
    "blank",
    ["NaN", "2147483632", "2147483634", "9223372036854775792", "9223372036854775794", "140737488355328"],
)
def test_a_blank_marker_of_dcgm_is_unknown_and_nobodys_fault(blank: str) -> None:
    # A marker of 32 bits is a fine number of 64: bytes, millijoules, masks.
    wide = {"energy_mj", "pcie_tx", "pcie_rx", "nvlink", "throttle"} if len(blank) == 10 else set()
    names = [n for n, f in fields.FIELDS.items() if (*COLUMNS, "", "", "", "nvlink")[f.column] not in wide]
    scrape = read("".join(line(name, blank) for name in names))
    assert only(scrape) == {}
    assert scrape.troubles == []


@pytest.mark.parametrize("wrong", ["+Inf", "-Inf", "1.5", "-0.01", "1e300"])
def test_a_ratio_that_cannot_be_is_unknown_and_reported(wrong: str) -> None:
    scrape = read(line("DCGM_FI_PROF_SM_ACTIVE", wrong) + line("DCGM_FI_PROF_DRAM_ACTIVE", 0.5))
    assert only(scrape) == {"dram_active": 500_000}
    assert kinds(scrape) == ["out-of-range"]
    assert "DCGM_FI_PROF_SM_ACTIVE (1)" in scrape.troubles[0].message


def test_a_little_more_than_all_is_all() -> None:
    assert only(read(line("DCGM_FI_PROF_SM_ACTIVE", "1.004")))["sm_active"] == 1_000_000


def test_a_text_that_is_cut_off_gives_what_is_whole_and_says_so() -> None:
    whole = line("DCGM_FI_PROF_SM_ACTIVE", 0.5) + line("DCGM_FI_DEV_FB_USED", 4500)
    for end in range(1, len(whole)):
        scrape = read(whole[:end])
        told = [values(reading) for reading in scrape.readings]
        # 4500 cut to 45 must never be believed.
        assert told in ([], [{"sm_active": 500_000}])
        assert bool(scrape.troubles) == (whole[end - 1] != "\n")


@pytest.mark.parametrize(
    "bad",
    [
        "<html>502 Bad Gateway</html>",
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1} 0.5',
        "DCGM_FI_PROF_SM_ACTIVE{UUID=GPU-1} 0.5",
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1",UUID="GPU-2"} 0.5',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} zero',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} 1_0',
        'DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"}',
        "0.5",
        "\x00\x01\x02",
        "{} {} {}",
    ],
)
def test_a_malformed_line_is_kept_aside_and_the_rest_read(bad: str) -> None:
    scrape = read(bad + "\n" + line("DCGM_FI_PROF_SM_ACTIVE", 0.5))
    assert {"sm_active": 500_000} in [values(reading) for reading in scrape.readings]
    assert kinds(scrape) == ["malformed"]
    assert bad[:10] in scrape.troubles[0].kept_aside


def test_a_series_told_twice_counts_once_the_first() -> None:
    scrape = read(line("DCGM_FI_PROF_SM_ACTIVE", 0.5) + line("DCGM_FI_PROF_SM_ACTIVE", 0.9))
    assert only(scrape) == {"sm_active": 500_000}
    assert kinds(scrape) == ["repeated-series"]


def test_two_containers_of_one_pod_on_one_gpu_are_no_second_exporter() -> None:
    pod = {"namespace": "vision", "pod": "train-0"}
    main, logger = (line("DCGM_FI_PROF_SM_ACTIVE", 0.5, container=each, **pod) for each in ("main", "logger"))
    scrape = read(main + logger)
    assert (only(scrape), kinds(scrape)) == ({"sm_active": 500_000}, [])
    assert scrape.readings[0].device.pods == (("vision", "train-0"),)
    assert kinds(read(main + logger + main)) == ["repeated-series"]


def test_escaped_labels_mean_what_they_meant() -> None:
    found, malformed = exposition.parse('a{b="x\\\\y",c="say \\"}\\" {1}",d="two\\nlines"} 5\n')
    assert malformed.count == 0
    assert dict(found[0][0].labels) == {"b": "x\\y", "c": 'say "}" {1}', "d": "two\nlines"}
    assert found[0][1] == 5


def test_spaces_comments_timestamps_and_infinities_of_the_format_are_understood() -> None:
    text = '# HELP a b\n# TYPE a gauge\n\na 1\na{} 2\na {x="1",} 3 1395066363000\nb +Inf\nc NaN\n'
    found, malformed = exposition.parse(text)
    assert malformed.count == 0
    assert [(series.name, series.timestamp_ms) for series, _ in found] == [
        ("a", None), ("a", None), ("a", 1395066363000), ("b", None), ("c", None)
    ]  # fmt: skip
    assert math.isnan(found[-1][1])


def test_lines_with_a_time_of_their_own_keep_it() -> None:
    text = line("DCGM_FI_PROF_SM_ACTIVE", "0.5 1763000000000") + line(
        "DCGM_FI_PROF_DRAM_ACTIVE", "0.25 1763000000000"
    )
    scrape = read(text)
    assert [reading.ts for reading in scrape.readings] == [1_763_000_000_000_000]
    assert only(scrape) == {"sm_active": 500_000, "dram_active": 250_000}


def test_a_series_of_no_gpu_is_refused_and_reported() -> None:
    scrape = read(
        line("DCGM_FI_PROF_SM_ACTIVE", 0.5, uuid="; DROP TABLE") + line("DCGM_FI_PROF_SM_ACTIVE", 0.5)
    )
    assert len(scrape.readings) == 1
    assert kinds(scrape) == ["no-device"]


def test_the_pods_of_a_shared_gpu_make_one_reading() -> None:
    text = ""
    for pod, util, memory in (("a", 60, 1000), ("b", 70, 2000)):
        who = {"namespace": "vision", "pod": pod}
        text += line("DCGM_FI_PROF_SM_ACTIVE", 0.9, **who)
        text += line("DCGM_FI_DEV_GPU_UTIL", util, **who)
        text += line("DCGM_FI_DEV_FB_USED", memory, **who)
        text += line("DCGM_FI_DEV_FB_FREE", 15000 - memory, **who)
    scrape = read(text)
    assert only(scrape) == {
        "sm_active": 900_000, "smi": 100, "memory_used_mib": 3000, "memory_total_mib": 15000
    }  # fmt: skip
    assert scrape.readings[0].device.pods == (("vision", "a"), ("vision", "b"))


def test_memory_that_is_repeated_for_each_pod_is_not_added_up() -> None:
    text = ""
    for pod in ("a", "b"):
        who = {"namespace": "vision", "pod": pod}
        text += line("DCGM_FI_DEV_FB_USED", 9000, **who) + line("DCGM_FI_DEV_FB_FREE", 6000, **who)
    assert only(read(text))["memory_used_mib"] == 9000


def test_renamed_labels_are_read_by_their_configured_names_only() -> None:
    names = LabelNames("exported_pod", "exported_namespace")
    whose = {"exported_pod": "train-0", "exported_namespace": "vision"}
    text = line("DCGM_FI_PROF_SM_ACTIVE", 0.5, namespace="monitoring", pod="exporter-x", **whose)
    scraped = Exporter("node-1", names).read(text, NOON)
    assert scraped.readings[0].device.pods == (("vision", "train-0"),)
    unheld = text.replace('exported_pod="train-0",exported_namespace="vision"', 'x="y"')
    scraped = Exporter("node-1", names).read(unheld, NOON)
    assert scraped.readings[0].device.pods == ()


def test_a_shape_learned_once_gives_the_same_as_one_learned_now() -> None:
    exporter = Exporter("node-1", LabelNames())
    texts = [
        line("DCGM_FI_PROF_SM_ACTIVE", 0.5) + line("DCGM_FI_DEV_FB_USED", 1),
        line("DCGM_FI_PROF_SM_ACTIVE", 0.7) + line("DCGM_FI_DEV_FB_USED", 2),
        line("DCGM_FI_DEV_FB_USED", 3) + line("DCGM_FI_PROF_SM_ACTIVE", 0.1),
        line("DCGM_FI_PROF_SM_ACTIVE", 0.7, pod="a", namespace="b") + line("DCGM_FI_DEV_FB_USED", 2),
        line("DCGM_FI_PROF_SM_ACTIVE", "NaN") + line("DCGM_FI_DEV_FB_USED", "x"),
    ]
    for text in texts * 2:
        assert read(text, exporter) == read(text)


def test_more_series_than_an_exporter_has_are_refused_whole() -> None:
    text = "".join(f'a{{b="{number}"}} 1\n' for number in range(MOST_SERIES + 1))
    scrape = read(text + line("DCGM_FI_PROF_SM_ACTIVE", 0.5))
    assert scrape.readings == []
    assert kinds(scrape) == ["too-much"]


def test_more_devices_than_a_node_has_are_refused_whole() -> None:
    text = "".join(line("DCGM_FI_PROF_SM_ACTIVE", 0.5, uuid=f"GPU-{number}") for number in range(1025))
    scrape = read(text)
    assert scrape.readings == []
    assert kinds(scrape) == ["too-much"]
