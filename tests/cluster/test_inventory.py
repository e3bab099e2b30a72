"""What hardware there is, from what drivers publish."""

from fractions import Fraction
from typing import Any

import pytest

from apps.cluster.mirror.rules import boards, hardware

GIB = 1024**3


def resource_slice(
    *devices: dict[str, Any], node: str = "gpu-01", generation: int = 1, of: int = 1
) -> dict[str, Any]:
    pool = {"name": node, "generation": generation, "resourceSliceCount": of}
    return {"spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": list(devices)}}


def device(name: str, **attributes: str) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in attributes.items()},
        "capacity": {"memory": {"value": "80Gi"}},
    }


WHOLE = device("gpu-0", type="gpu", productName="NVIDIA H100 80GB HBM3", uuid="GPU-a")
SLICE = device(
    "gpu-1-mig-3g40gb-9-4",
    type="mig",
    productName="NVIDIA H100 80GB HBM3",
    profile="3g.40gb",
    uuid="MIG-b",
    parentUUID="GPU-b",
)


def test_a_fleet_of_whole_sliced_and_foreign_devices_is_read() -> None:
    foreign = {"name": "nic-0"}

    views = hardware.devices([resource_slice(WHOLE, SLICE, foreign)])

    assert [(v.name, v.type, v.profile, v.memory_bytes) for v in views] == [
        ("gpu-0", "gpu", "", 80 * GIB),
        ("gpu-1-mig-3g40gb-9-4", "mig", "3g.40gb", 80 * GIB),
        ("nic-0", "", "", 0),
    ]


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    views = hardware.devices([resource_slice(WHOLE, generation=2), resource_slice(SLICE, generation=1)])

    assert [view.name for view in views] == ["gpu-0"]


def test_of_a_pool_of_which_a_slice_is_missing_older_ones_stand() -> None:
    new, old = resource_slice(WHOLE, generation=2, of=2), resource_slice(SLICE, WHOLE, generation=1, of=2)
    assert [view.name for view in hardware.devices([new, old])] == ["gpu-0", SLICE["name"]]
    assert hardware.partial_pools([new, old]) == {("gpu.nvidia.com", "gpu-01")}
    second = resource_slice(SLICE, generation=2, of=2)
    assert hardware.partial_pools([new, second, old]) == frozenset()


def test_a_name_that_two_slices_of_a_pool_have_is_one_device() -> None:
    both = [resource_slice(WHOLE, of=2), resource_slice(WHOLE, SLICE, of=2)]
    assert [view.name for view in hardware.devices(both)] == ["gpu-0", SLICE["name"]]


def test_counters_of_a_partitionable_gpu_are_no_devices() -> None:
    counters = resource_slice()
    del counters["spec"]["devices"]

    assert hardware.devices([counters]) == []


@pytest.mark.parametrize(
    ("model", "profile", "share"),
    [
        ("NVIDIA H100 80GB HBM3", "1g.10gb", (1, 7)),
        ("NVIDIA H100 80GB HBM3", "1g.20gb+me", (1, 7)),
        ("NVIDIA A100-SXM4-40GB", "3g.20gb", (3, 7)),
        ("NVIDIA A30", "2g.12gb", (2, 4)),
        ("NVIDIA H100 80GB HBM3", "1c.3g.40gb", (1, 7)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb", (1, 4)),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "2g.48gb", (2, 4)),
        ("NVIDIA RTX PRO 5000 Blackwell", "1g.24gb", (1, 2)),
        ("NVIDIA RTX PRO 4500 Blackwell", "1g.16gb", (1, 2)),
        ("NVIDIA GB200", "1g.23gb", (1, 7)),
        ("NVIDIA A300", "1g.10gb", (1, 7)),
        ("NVIDIA L4", "", (1, 1)),
        ("Something", "unheard-of", (1, 1)),
    ],
)
def test_a_slice_is_worth_its_compute(model: str, profile: str, share: tuple[int, int]) -> None:
    assert hardware.compute_share(model, profile) == share


def test_slices_are_gathered_by_their_physical_gpu() -> None:
    other = device("gpu-1-mig-1g10gb-19-0", type="mig", profile="1g.10gb", uuid="MIG-c", parentUUID="GPU-b")

    gpus = hardware.gpus(hardware.devices([resource_slice(WHOLE, SLICE, other)]))

    assert [(gpu.id, len(gpu.slices), gpu.memory_bytes) for gpu in gpus] == [
        ("GPU-a", 0, 80 * GIB),
        ("GPU-b", 2, None),
    ]
    assert sorted(filter(None, map(hardware.slice_start, gpus[1].slices))) == [4]


def test_a_claim_holds_what_was_allocated_to_it_even_before_its_pod_runs() -> None:
    results = [
        {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": "gpu-0"},
        {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": "gpu-1", "adminAccess": True},
    ]
    claim = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "status": {"allocation": {"devices": {"results": results}}},
    }

    held = hardware.holders([claim, {"metadata": {"name": "pending", "namespace": "ns"}}])

    assert held == {("gpu.nvidia.com", "gpu-01", "gpu-0"): (hardware.Holder("ns", "c", "u", ()),)}


def test_of_a_device_in_shares_every_claim_is_a_holder_of_its_part() -> None:
    def holding(name: str, *memory: str) -> dict[str, Any]:
        results = [share(each, shareID=f"{name}-{each}") for each in memory]
        status = {"allocation": {"devices": {"results": results}}}
        return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "status": status}

    ((key, held),) = hardware.holders([holding("a", "1Gi", "2Gi"), holding("b", "4Gi")]).items()

    assert key == ("gpu.nvidia.com", "gpu-01", "gpu-0")
    assert [(each.claim, each.memory_bytes) for each in held] == [("a", 3 * GIB), ("b", 4 * GIB)]


@pytest.mark.parametrize(
    ("model", "profile", "occupied", "of_board", "part"),
    [
        ("NVIDIA H100 80GB HBM3", "1g.10gb", (6,), 8, Fraction(1, 8)),
        ("NVIDIA H100 80GB HBM3", "1g.20gb", (6, 7), 8, Fraction(1, 4)),
        ("NVIDIA A30", "2g.12gb", (0, 1), 4, Fraction(1, 2)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb", (9, 10, 11), 12, Fraction(1, 4)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "4g.96gb", tuple(range(12)), 12, Fraction(1)),
        ("NVIDIA H100 80GB HBM3", "1g.10gb", (), 0, Fraction(0)),
    ],
)
def test_a_board_has_as_many_memory_slices_as_its_slices_say(
    model: str, profile: str, occupied: tuple[int, ...], of_board: int, part: Fraction
) -> None:
    body = device("mig", type="mig", productName=model, profile=profile)
    body["capacity"] |= {f"memorySlice{number}": {"value": "1"} for number in occupied}
    (view,) = hardware.devices([resource_slice(body)])
    assert (boards.memory_slices_of(view), boards.memory_share(view)) == (of_board, part)


def test_a_cordoned_node_and_a_silent_node_take_no_work() -> None:
    def node(name: str, *, ready: str = "True", **spec: Any) -> dict[str, Any]:
        status = {
            "allocatable": {"cpu": "64", "memory": "512Gi"},
            "conditions": [{"type": "Ready", "status": ready}],
        }
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    views = hardware.nodes(
        [node("c", ready="Unknown"), node("b", unschedulable=True), node("a"), {"metadata": {"name": "d"}}]
    )

    assert [(v.name, v.ready, v.schedulable) for v in views] == [
        ("a", True, True),
        ("b", True, False),
        ("c", False, False),
        ("d", False, False),
    ]
    assert (views[0].cpu_millis, views[0].memory_bytes) == (64000, 512 * GIB)


def share(memory: str | None, device: str = "gpu-0", **more: Any) -> dict[str, Any]:
    """What an allocation says of one share of a device that several may have."""
    taken = {} if memory is None else {"consumedCapacity": {"memory": memory}}
    about = {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": device}
    return {**about, "shareID": f"s-{memory}", **taken, **more}


def test_shares_of_one_device_add_up_and_devices_of_ones_own_are_none() -> None:
    own = {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": "gpu-2"}
    looks = share("80Gi", "gpu-3", adminAccess=True)
    found = hardware.consumed([share("20Gi"), share("10Gi"), share(None, "gpu-1"), own, looks])
    keys = [("gpu.nvidia.com", "gpu-01", name) for name in ("gpu-0", "gpu-1")]
    assert found == {keys[0]: 30 * GIB, keys[1]: 0}


@pytest.mark.parametrize(
    ("capacity", "memory", "part"),
    [
        ("80Gi", 20 * GIB, Fraction(1, 4)),
        ("81559Mi", 10 * GIB, Fraction(10240, 81559)),
        ("80G", 40 * 10**9, Fraction(1, 2)),
        # 10 GB are 9536.7 MiB: a begun MiB is nobody's.
        ("80Gi", 10 * 10**9, Fraction(9536, 81920)),
        ("80Gi", 90 * GIB, Fraction(1)),
        ("80Gi", 0, None),
        ("80Gi", 1000, None),
        ("0", 20 * GIB, None),
    ],
)
def test_the_memory_that_a_claim_consumes_is_its_part_of_a_device(
    capacity: str, memory: int, part: Fraction | None
) -> None:
    body = {**WHOLE, "capacity": {"memory": {"value": capacity}}}
    (view,) = hardware.devices([resource_slice(body)])
    assert hardware.part_of(view, memory) == part


def test_a_slice_and_a_device_that_is_not_published_have_no_parts() -> None:
    (view,) = hardware.devices([resource_slice(SLICE)])
    assert hardware.part_of(view, 20 * GIB) is None
    assert hardware.part_of(None, 20 * GIB) is None
