"""Which node has room first, and who has to end for it."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.cluster.mirror.rules.hardware import DeviceView
from apps.workloads.waiting.rules.node_room import Fleet, NodeHolder, nearest

AT = datetime(2026, 11, 20, 14, tzinfo=UTC)
SOON, LATE = AT, AT + timedelta(hours=4)


def device(node: str, number: int) -> DeviceView:
    return DeviceView(
        driver="gpu", node=node, pool=node, name=f"gpu-{number}", type="gpu", model="H100", profile="",
        uuid=f"{node}-{number}", parent_uuid=f"{node}-{number}", memory_bytes=1, share_numerator=1,
        share_denominator=1,
    )  # fmt: skip


def fleet(**nodes: str) -> Fleet:
    """Each node as one letter for each of its GPUs: who has it, `.` for nobody."""
    devices = [device(node, number) for node, row in nodes.items() for number in range(len(row))]
    held = {
        device(node, number).key: holder
        for node, row in nodes.items()
        for number, holder in enumerate(row)
        if holder != "."
    }
    return Fleet(devices, devices, held, frozenset(nodes))


@pytest.mark.parametrize(
    ("nodes", "ends", "node", "lacking", "holders"),
    [
        ({"a": "xx..", "b": "yyy."}, {"x": LATE, "y": SOON}, "b", 3, [("y", 3, SOON)]),
        ({"a": "xx..", "b": "yyy."}, {}, "a", 2, [("x", 2, None)]),
        # x ends first and is too small to matter once y ends.
        ({"a": "xyy.."}, {"x": SOON, "y": LATE}, "a", 2, [("y", 2, LATE)]),
        ({"a": "xzyy"}, {"x": SOON, "y": LATE, "z": SOON}, "a", 4,
         [("x", 1, SOON), ("z", 1, SOON), ("y", 2, LATE)]),
    ],
    ids=["earliest-end", "fewest-devices", "nobody-in-vain", "all-of-a-node"],
)  # fmt: skip
def test_the_node_that_has_room_first(
    nodes: dict[str, str],
    ends: dict[str, datetime | None],
    node: str,
    lacking: int,
    holders: list[tuple[str, int, datetime | None]],
) -> None:
    found = nearest(fleet(**nodes), 4, ends)
    assert found is not None
    assert (found.node, found.lacking) == (node, lacking)
    assert found.holders == tuple(NodeHolder(*each) for each in holders)


def test_a_node_that_is_too_small_is_never_the_nearest() -> None:
    assert nearest(fleet(a="xx", b="yyy"), 4, {}) is None
