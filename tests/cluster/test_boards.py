"""What of a board is there side by side, as its driver publishes it."""

import pytest

from apps.cluster.mirror.rules import boards, hardware
from sandbox.fleet.slices import resource_slices
from sandbox.fleet.spec import API_VERSION, parse_fleet

FLEET = parse_fleet(
    f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n"
    "  - {name: a, model: H100 80GB, nodes: 1, gpusPerNode: 2, sharing: {mode: mig-on-demand}}\n"
    "  - {name: b, model: L4, nodes: 1, gpusPerNode: 2}\n"
)
SMALL, HALF = "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-4"


@pytest.mark.parametrize(
    ("node", "held", "there"),
    [
        ("a-0", (), ["gpu-0", "gpu-1"]),
        ("a-0", ("gpu-1",), ["gpu-0", "gpu-1"]),
        ("a-0", (SMALL,), [SMALL, "gpu-0-mig-3g40gb-9-0", "gpu-1"]),
        ("a-0", (HALF, "gpu-0-mig-4g40gb-5-0"), [HALF, "gpu-0-mig-4g40gb-5-0", "gpu-1"]),
        ("b-0", ("gpu-1",), ["gpu-0", "gpu-1"]),
    ],
)
def test_of_a_board_that_is_cut_on_demand_what_is_held_is_there_and_the_largest_that_still_fits(
    node: str, held: tuple[str, ...], there: list[str]
) -> None:
    published = hardware.devices(resource_slices(FLEET, node, 7))
    taken = {device.key for device in published if device.name in held}
    assert len(taken) == len(held)
    assert sorted(device.name for device in boards.present(published, taken)) == sorted(there)


@pytest.mark.parametrize(
    ("node", "one", "other", "excludes"),
    [
        ("a-0", "gpu-0", SMALL, True),
        ("a-0", SMALL, "gpu-0-mig-1g10gb-19-5", False),
        ("a-0", HALF, SMALL, True),
        ("a-0", HALF, "gpu-0-mig-4g40gb-5-0", False),
        ("a-0", "gpu-0", "gpu-1", False),
        ("b-0", "gpu-0", "gpu-1", False),
    ],
)
def test_devices_exclude_each_other_where_their_board_has_no_room_for_both(
    node: str, one: str, other: str, *, excludes: bool
) -> None:
    published = {device.name: device for device in hardware.devices(resource_slices(FLEET, node, 7))}
    for first, second in ((one, other), (other, one)):
        assert boards.exclude(published[first], published[second]) == excludes


def test_of_counters_that_are_not_published_nothing_is_known() -> None:
    _counters, *slices = resource_slices(FLEET, "a-0", 7)
    published = {device.name: device for device in hardware.devices(slices)}
    assert not boards.exclude(published["gpu-0"], published[SMALL])
