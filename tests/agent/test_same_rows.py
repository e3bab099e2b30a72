"""The agent's text is the exporter's: same names, kinds and units, and the product reads the same rows."""

from pathlib import Path

import pytest

from agent import fields
from agent.collector import Collector
from agent.exposition import exposition
from agent.session import Settings
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import COLUMNS, Reading
from apps.metering.telemetry.rules.sources.scrape import Exporter
from sandbox.fleet import dcgm
from tests.agent import kubelet
from tests.agent.cards import DRAM, SM, TENSOR, Card, Library, Part
from tests.agent.kubelet import Lister, answer, claim, container, devices, pod
from tests.agent.live import uuid
from tests.agent.standin import installed


def test_every_field_of_the_exporter_has_the_same_name_kind_and_unit() -> None:
    ours = {field.name: field for field in fields.FIELDS}
    assert [
        (field.name, field.kind, field.help, field.whole)
        for field in dcgm.FIELDS
        if field.name not in ours
        or (ours[field.name].kind, ours[field.name].help, ours[field.name].whole)
        != (field.kind, field.help, field.whole)
    ] == []


def text(socket: Path) -> str:
    cards = [
        Card(uuid(0), 0, smi=100, rates={SM: 50.0, TENSOR: 25.0, DRAM: 12.5}, processes=[(1, 10), (2, 20)]),
        Card(
            uuid(1),
            1,
            parts=[Part("MIG-a", "1g.18gb", 7, rates={SM: 40.0}), Part("MIG-b", "1g.18gb", 8, start=1)],
        ),
        Card(uuid(2), 2, gpm=False),
        Card(uuid(3), 3),
    ]
    held = (
        pod("team", "train", container("main", devices("nvidia.com/gpu", uuid(0)))),
        pod("team", "small", container("main", claim("c", "team", "gpu-1-mig-1g18gb-19-1"))),
        *(
            pod("team", f"share-{n}", container("main", devices("nvidia.com/gpu", f"{uuid(3)}::{n}")))
            for n in (0, 1)
        ),
    )
    with installed(Library(cards)) as library, kubelet.serving(socket, Lister(answer(*held))):
        collector = Collector(Settings("node-1", socket=socket), clock=lambda: library.now)
        collector.collect()
        library.advance(30)
        return exposition(collector.collect())


@pytest.fixture
def readings(tmp_path: Path) -> list[Reading]:
    scrape = Exporter("node-1", LabelNames()).read(text(tmp_path / "k.sock"), 1_000_000)
    assert [trouble for trouble in scrape.troubles if trouble.kind == "malformed"] == []
    return scrape.readings


def column(reading: Reading, name: str) -> int | None:
    return reading.values[COLUMNS.index(name)]


def test_the_product_reads_ratios_memory_and_processes_as_from_the_exporter(readings: list[Reading]) -> None:
    whole = readings[0]
    names = ("smi", "sm_active", "tensor_active", "dram_active", "memory_used_mib", "power_mw", "processes")
    assert [column(whole, name) for name in names] == [100, 500_000, 250_000, 125_000, 1024, 75_500, 2]
    assert column(whole, "memory_total_mib") == 143_771
    assert column(whole, "throttle") == 1
    assert column(whole, "energy_mj") == 1_000_000 + 75_500 * 30


def test_the_product_tells_mig_devices_apart_and_whose_they_are(readings: list[Reading]) -> None:
    found = {
        (
            r.device.uuid,
            r.device.gpu_instance,
            r.device.compute_instance,
            r.device.instance_uuid,
        ): r.device.pods
        for r in readings
    }
    assert found == {
        (uuid(0), -1, -1, ""): (("team", "train"),),
        (uuid(1), 7, -1, "MIG-a"): (),
        (uuid(1), 8, -1, "MIG-b"): (("team", "small"),),
        (uuid(2), -1, -1, ""): (),
        (uuid(3), -1, -1, ""): (),
    }


def test_what_an_old_card_cannot_tell_is_unknown_to_the_product(readings: list[Reading]) -> None:
    old = next(reading for reading in readings if reading.device.uuid == uuid(2))
    assert [column(old, name) for name in ("sm_active", "dram_active", "pcie_tx", "nvlink")] == [None] * 4
    assert column(old, "memory_used_mib") == 1024
