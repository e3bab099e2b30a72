"""Which devices could be given out together: overlapping MIG places, nodes, and what is out of service."""

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
