"""Which devices could be given out together: overlapping MIG places, nodes, and what is out of service."""

from typing import Any

from apps.cluster.mirror.rules import hardware
from apps.cluster.mirror.rules.hardware import DeviceView, Taint
from apps.quotas.catalogue.rules.room import placeable_devices

WORKING = frozenset({"n1", "n2"})


def device(name: str, *slices: int, node: str = "n1", gpu: str = "g1", taint: str = "") -> DeviceView:
    return DeviceView(
        driver="gpu.nvidia.com", node=node, pool=node, name=name, type="mig", model="H100", profile="",
        uuid=name, parent_uuid=gpu, memory_bytes=0, share_numerator=1, share_denominator=7,
        memory_slices=slices, taints=(Taint("gpu.nvidia.com/xid", "48", taint),) if taint else (),
    )  # fmt: skip


def test_instances_that_overlap_exclude_each_other() -> None:
    half = [device("a", 0, 1, 2, 3), device("b", 4, 5, 6, 7), device("middle", 2, 3, 4, 5)]
    found = placeable_devices(half, half, held=set(), working=WORKING)
    assert (found.free, found.most) == (2, 2)


def test_a_small_instance_in_the_wrong_place_leaves_free_slices_that_fit_nothing() -> None:
    halves = [device("a", 0, 1, 2, 3), device("b", 4, 5, 6, 7)]
    small = [device("s3", 3), device("s4", 4)]
    held = {small[0].key, small[1].key}
    found = placeable_devices(halves, [*halves, *small], held=held, working=WORKING)
    assert (found.free, found.elsewhere, found.capacity) == (0, 6, 2)


def test_free_devices_on_different_nodes_do_not_lie_together() -> None:
    whole = [device("a"), device("b", gpu="g2"), device("c", node="n2", gpu="g3")]
    found = placeable_devices(whole, whole, held={whole[0].key}, working=WORKING)
    assert (found.free, found.most, found.largest, found.elsewhere) == (2, 1, 2, 0)


def test_a_node_that_is_out_of_service_and_a_tainted_device_count_as_down() -> None:
    closed = device("c", node="n2", gpu="g3", taint="NoSchedule")
    noted = device("d", node="n2", gpu="g4", taint="None")
    whole = [device("a"), device("b", node="n3", gpu="g2"), closed, noted]
    found = placeable_devices(whole, whole, held=set(), working=WORKING)
    assert (found.free, found.down, found.nodes_down) == (2, 2, ("n2", "n3"))


BOARD = {"memory": 80, "multiprocessors": 132, "jpeg-engines": 1} | {f"memory-slice-{n}": 1 for n in range(8)}
PLACES = {"1g": range(7), "1g+me": range(7), "3g": (0, 4)}
TAKES = {"1g": (10, 16, 1), "1g+me": (10, 16, 1), "3g": (40, 60, 4)}
"""Of each profile: memory, multiprocessors and memory slices, as NVIDIA's driver counts an H100."""


def on_demand() -> list[DeviceView]:
    """A board that its driver offers whole and cut in every way: counters say what fits together."""
    bodies = [_published("gpu-0", "gpu", dict(BOARD), uuid="GPU-a")]
    for profile, starts in PLACES.items():
        memory, processors, width = TAKES[profile]
        for start in starts:
            takes = {"memory": memory, "multiprocessors": processors}
            takes |= {f"memory-slice-{n}": 1 for n in range(start, start + width)}
            takes |= {"jpeg-engines": 1} if profile.endswith("+me") else {}
            name = f"gpu-0-mig-{profile.replace('+', '-')}-{start}"
            bodies.append(_published(name, "mig", takes, parentUUID="GPU-a", profile=profile))
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": pool}
    counters = [{"name": "gpu-0-counter-set", "counters": _quantities(BOARD)}]
    return hardware.devices(
        [{"spec": {**spec, "sharedCounters": counters}}, {"spec": {**spec, "devices": bodies}}]
    )


def _published(name: str, kind: str, takes: dict[str, int], **attributes: str) -> dict[str, Any]:
    about = {"type": kind, "productName": "NVIDIA H100 80GB HBM3", **attributes}
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in about.items()},
        "consumesCounters": [{"counterSet": "gpu-0-counter-set", "counters": _quantities(takes)}],
    }


def _quantities(amounts: dict[str, int]) -> dict[str, dict[str, str]]:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def test_counters_of_a_board_say_what_fits_beside_what_is_held() -> None:
    """RULE: as the scheduler counts: whole and slices exclude each other, as do two with the only engine."""
    board = on_demand()

    def free(*held: str) -> dict[str, int]:
        taken = {device.key for device in board if device.name in held}
        assert len(taken) == len(held)
        rooms = {
            profile or "whole": placeable_devices(
                [device for device in board if device.profile == profile], board, held=taken, working=WORKING
            )
            for profile in ("", *PLACES)
        }
        return {name: each.free for name, each in rooms.items()}

    assert free() == {"whole": 1, "1g": 7, "1g+me": 1, "3g": 2}
    assert free("gpu-0") == {"whole": 0, "1g": 0, "1g+me": 0, "3g": 0}
    assert free("gpu-0-mig-1g-0") == {"whole": 0, "1g": 6, "1g+me": 1, "3g": 1}
    assert free("gpu-0-mig-1g-me-5") == {"whole": 0, "1g": 6, "1g+me": 0, "3g": 1}
    assert free("gpu-0-mig-3g-0", "gpu-0-mig-3g-4") == {"whole": 0, "1g": 0, "1g+me": 0, "3g": 0}
    assert free("gpu-0-mig-3g-0") == {"whole": 0, "1g": 3, "1g+me": 1, "3g": 1}


def test_a_counter_that_no_slice_publishes_gives_nothing() -> None:
    """As in the scheduler: such a pool is not whole yet, or broken."""
    orphan = _published("gpu-0", "gpu", dict(BOARD), uuid="GPU-a")
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": pool, "devices": [orphan]}
    board = hardware.devices([{"spec": spec}])
    assert placeable_devices(board, board, held=set(), working=WORKING).free == 0
