"""Nodes, slices and device classes: the labels and attributes that NVIDIA's components publish."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sandbox.controllers.dra.pools import node_candidates
from sandbox.controllers.dra.selectors import SelectorError, matches
from sandbox.fleet.hardware import MODELS
from sandbox.fleet.nodes import SHARED_RESOURCE, node_object
from sandbox.fleet.slices import device_classes, resource_slices
from sandbox.fleet.spec import API_VERSION, load_fleet, parse_fleet

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SEED = 7


def test_a_mig_node_carries_feature_discovery_labels_for_gpu_and_slices() -> None:
    labels = node_object(load_fleet("laptop"), "h100-0", SEED, NOW)["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/mig-1g.10gb.count"] == "4"
    assert labels["nvidia.com/mig-3g.40gb.multiprocessors"] == "60"
    assert labels["nvidia.com/mig.config.state"] == "success"


def test_a_node_may_have_devices_that_are_no_gpus() -> None:
    pool = "{name: a, model: L4, nodes: 1, otherDevices: {nvidia.com/hostdev: 8}}"
    fleet = parse_fleet(f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n  - {pool}\n")
    assert node_object(fleet, "a-0", SEED, NOW)["status"]["allocatable"]["nvidia.com/hostdev"] == "8"


def test_a_time_sliced_node_offers_replicas_and_publishes_no_slice() -> None:
    fleet = load_fleet("laptop")
    node = node_object(fleet, "t4-0", SEED, NOW)
    assert node["status"]["allocatable"][SHARED_RESOURCE] == "4"
    assert node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert resource_slices(fleet, "t4-0", SEED) == []


def test_a_gpu_in_mig_mode_is_published_as_its_instances_only() -> None:
    (published,) = resource_slices(load_fleet("laptop"), "h100-0", SEED)
    names = [device["name"] for device in published["spec"]["devices"]]
    assert names == ["gpu-0", *(f"gpu-1-mig-1g10gb-19-{n}" for n in range(4)), "gpu-1-mig-3g40gb-9-4"]
    largest = published["spec"]["devices"][-1]
    assert largest["attributes"]["profile"] == {"string": "3g.40gb"}
    assert largest["attributes"]["driverVersion"] == {"version": "580.95.5"}
    assert largest["capacity"]["memory"] == {"value": "40448Mi"}
    assert {f"memorySlice{n}" for n in range(4, 8)} <= set(largest["capacity"])


def test_a_board_that_is_cut_on_demand_is_published_whole_and_in_every_way() -> None:
    """As NVIDIA's driver does since Kubernetes 1.35: counters in a slice of their own, and one per board."""
    sharing = "sharing: {mode: mig-on-demand}"
    pool = f"{{name: a, model: H100 80GB, nodes: 1, gpusPerNode: 2, {sharing}}}"
    fleet = parse_fleet(f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n  - {pool}\n")
    counters, *boards = resource_slices(fleet, "a-0", SEED)
    assert [each["name"] for each in counters["spec"]["sharedCounters"]] == [
        f"gpu-{minor}-counter-set" for minor in range(2)
    ]
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in (counters, *boards)} == {3}
    assert not any("sharedCounters" in board["spec"] for board in boards)
    places = sum(len(profile.starts) for profile in MODELS["H100 80GB"].profiles)
    for minor, board in enumerate(boards):
        names = [device["name"] for device in board["spec"]["devices"]]
        assert len(names) == 1 + places
        assert names == sorted(names)
        assert all(name.startswith(f"gpu-{minor}") for name in names)
    whole, *parts = boards[0]["spec"]["devices"]
    (taken,) = whole["consumesCounters"]
    assert taken == {
        "counterSet": "gpu-0-counter-set",
        "counters": counters["spec"]["sharedCounters"][0]["counters"],
    }
    half = next(each for each in parts if each["name"] == "gpu-0-mig-3g40gb-9-4")
    assert "uuid" not in half["attributes"], "it has none before it is cut"
    assert not any(name.startswith("memorySlice") for name in half["capacity"])
    numbers = {name for name in half["consumesCounters"][0]["counters"] if name.startswith("memory-slice-")}
    assert numbers == {f"memory-slice-{number}" for number in range(4, 8)}
    assert half["consumesCounters"][0]["counters"]["copy-engines"] == {"value": "3"}


def test_the_same_seed_gives_the_same_identities_and_another_seed_others() -> None:
    fleet = load_fleet("lab")
    assert resource_slices(fleet, "h100-0", 1) == resource_slices(fleet, "h100-0", 1)
    assert resource_slices(fleet, "h100-0", 1) != resource_slices(fleet, "h100-0", 2)


def test_the_drivers_classes_select_whole_gpus_and_slices_apart() -> None:
    (published,) = resource_slices(load_fleet("laptop"), "h100-0", SEED)
    published["metadata"]["name"] = "s"
    devices = node_candidates([published], "h100-0")
    classes = {
        c["metadata"]["name"]: c["spec"]["selectors"][0]["cel"]["expression"] for c in device_classes()
    }
    chosen = {
        name: [d.device["name"] for d in devices if matches(expression, d.driver, d.device)]
        for name, expression in classes.items()
    }
    assert chosen["gpu.nvidia.com"] == ["gpu-0"]
    assert len(chosen["mig.nvidia.com"]) == 5
    assert chosen["vfio.gpu.nvidia.com"] == chosen["compute-domain-daemon.nvidia.com"] == []


GPU = {
    "attributes": {"type": {"string": "gpu"}, "driverVersion": {"version": "580.95.5"}},
    "capacity": {"memory": {"value": "80Gi"}},
}


def test_a_missing_attribute_is_a_runtime_error_unless_guarded() -> None:
    domain = "device.attributes['gpu.nvidia.com']"
    with pytest.raises(SelectorError, match="CEL runtime error: no such key: profile"):
        matches(f"{domain}.profile == '1g.10gb'", "gpu.nvidia.com", GPU)
    assert not matches(f"{domain}.type == 'mig' && {domain}.profile == '1g.10gb'", "gpu.nvidia.com", GPU)
    assert not matches(f"'profile' in {domain} && {domain}.profile == 'x'", "gpu.nvidia.com", GPU)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('70Gi')) >= 0", True),
        ("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('90Gi'))", False),
        ("device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('580.0.0')) > 0", True),
        ("'x' in device.attributes['elsewhere.example.com']", False),
        ("device.driver.startsWith('gpu.')", True),
    ],
)
def test_quantities_versions_and_unknown_domains_behave_as_in_kubernetes(
    expression: str, *, expected: bool
) -> None:
    assert matches(expression, "gpu.nvidia.com", GPU) is expected


def test_a_selector_that_does_not_compile_says_so() -> None:
    with pytest.raises(SelectorError, match="CEL compile error"):
        matches("device.driver ==", "gpu.nvidia.com", GPU)
