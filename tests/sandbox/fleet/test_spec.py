"""The fleet file: what is accepted, and that a wrong file names its line and the rule."""

from __future__ import annotations

import pytest

from sandbox.fleet.document import FleetError
from sandbox.fleet.hardware import MODELS, LayoutError, place
from sandbox.fleet.spec import Capacity, SharingMode, load_fleet, parse_fleet, ready_fleets

HEAD = """apiVersion: sandbox.allotment.dev/v1
kind: Fleet
name: mine
pools:
"""


def test_the_ready_fleets_have_the_sizes_they_promise() -> None:
    assert ready_fleets() == ["lab", "laptop"]
    assert load_fleet("lab").gpus == 64
    assert len(list(load_fleet("laptop").node_pools())) == 4


def test_the_laptop_fleet_shows_every_fixed_sharing_mode_and_both_ways_to_buy() -> None:
    pools = load_fleet("laptop").pools
    newer = {SharingMode.MIG_ON_DEMAND, SharingMode.SHARES}
    assert {pool.sharing.mode for pool in pools} == set(SharingMode) - newer
    assert {pool.capacity for pool in pools} == set(Capacity)


@pytest.mark.parametrize(
    ("pool", "line", "rule"),
    [
        ("  - {name: a, model: H200, nodes: 1}", 5, "pools[0].model must be one of"),
        ("  - {name: a, model: L4, nodes: 0}", 5, "must be within 1 and 500"),
        ("  - {name: A_b, model: L4, nodes: 1}", 5, "must be a DNS label"),
        ("  - {name: a, model: L4, nodes: 1, colour: red}", 5, "has no field 'colour'"),
        ("  - {name: a, nodes: 1, gpusPerNode: 2}", 5, "has GPUs but no model"),
        ("  - {name: a, nodes: 1, otherDevices: {hostdev: 8}}", 5, "'hostdev' is no resource"),
        ("  - name: a\n    model: L4\n    nodes: 1\n    memory: much", 8, "must be a quantity"),
        (
            "  - name: a\n    model: T4\n    nodes: 1\n    sharing: {mode: mig, layouts: []}",
            8,
            "T4 has no MIG",
        ),
        (
            "  - name: a\n    model: T4\n    nodes: 1\n    sharing: {mode: mig-on-demand}",
            8,
            "T4 has no MIG",
        ),
        (
            "  - {name: a, model: H100 80GB, nodes: 1, gpusPerNode: 9, sharing: {mode: mig-on-demand}}",
            5,
            "at most 8 GPUs of a node are on demand",
        ),
        (
            "  - name: a\n    model: L4\n    nodes: 1\n    sharing: {mode: whole, replicas: 4}",
            8,
            "belongs to mode",
        ),
        ("  - {name: a, model: L4, nodes: 1}\n  - {name: a, model: T4, nodes: 1}", 6, "is used twice"),
        ("  - [", 6, "not YAML"),
    ],
)
def test_a_wrong_fleet_file_names_the_line_and_the_rule(pool: str, line: int, rule: str) -> None:
    with pytest.raises(FleetError) as caught:
        parse_fleet(f"{HEAD}{pool}\n")
    assert caught.value.line == line
    assert rule in caught.value.rule


def test_a_mig_layout_the_hardware_refuses_names_the_rule() -> None:
    text = f"""{HEAD}  - name: a
    model: H100 80GB
    nodes: 1
    sharing:
      mode: mig
      layouts:
        - gpus: [0]
          profiles: {{3g.40gb: 2, 1g.10gb: 1}}
"""
    with pytest.raises(FleetError) as caught:
        parse_fleet(text)
    assert caught.value.line == 12
    assert "memory slices" in caught.value.rule


@pytest.mark.parametrize("model", ["H100 80GB", "A100 40GB", "RTX PRO 6000"])
def test_every_profile_fits_alone_as_often_as_its_limit_says(model: str) -> None:
    hardware = MODELS[model]
    for profile in hardware.profiles:
        placements = place(hardware, [profile.name] * profile.limit)
        cells = [c for p in placements for c in range(p.start, p.start + p.profile.memory_slices)]
        assert len(placements) == profile.limit
        assert len(cells) == len(set(cells))
        assert max(cells) < hardware.memory_slices
        assert all(p.start in profile.starts for p in placements)
        with pytest.raises(LayoutError):
            place(hardware, [profile.name] * (profile.limit + 1))


def test_two_three_slice_instances_leave_no_memory_for_a_seventh_slice() -> None:
    with pytest.raises(LayoutError, match="memory slices"):
        place(MODELS["H100 80GB"], ["3g.40gb", "3g.40gb", "1g.10gb"])
