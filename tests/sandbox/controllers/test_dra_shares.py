"""Devices in shares: claims have parts of their capacity side by side, as long as it lasts."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.controllers.dra.allocate import Allocator, CannotAllocate, SelectorCache
from sandbox.controllers.dra.pools import consumed, stock_of, taken_devices
from sandbox.fleet.slices import DRIVER, device_classes, resource_slices
from sandbox.fleet.spec import API_VERSION, parse_fleet

Body = dict[str, Any]
CLASSES = {body["metadata"]["name"]: body for body in device_classes()}
FLEET = parse_fleet(
    f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n"
    "  - {name: a, model: L4, nodes: 1, gpusPerNode: 1, sharing: {mode: shares}}\n"
)
"""One L4: 23,034 MiB."""


def claim(**requests: str) -> Body:
    exact: Body = {"deviceClassName": DRIVER, "count": 1}
    if requests:
        exact["capacity"] = {"requests": requests}
    return {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}}}


def allocate(*before: list[Body], want: Body) -> Body:
    """What the claim gets beside the results of claims before it."""
    stock = stock_of(resource_slices(FLEET, "a-0", 7), "a-0")
    claims = [{"status": {"allocation": {"devices": {"results": each}}}} for each in before]
    taken = taken_devices(claims)
    allocator = Allocator(
        stock.candidates, CLASSES, taken, SelectorCache(), stock.left(taken), consumed(claims)
    )
    ((result,),) = allocator.allocate([want])
    return result


def test_claims_have_parts_side_by_side_until_the_memory_is_given_away() -> None:
    first = allocate(want=claim(memory="10Gi"))
    second = allocate([first], want=claim(memory="12Gi"))
    assert [each["consumedCapacity"] for each in (first, second)] == [{"memory": "10Gi"}, {"memory": "12Gi"}]
    assert first["device"] == second["device"] == "gpu-0"
    assert first["shareID"] != second["shareID"]
    with pytest.raises(CannotAllocate):
        allocate([first], [second], want=claim(memory="1Gi"))


def test_a_claim_that_asks_for_no_part_has_all_of_it() -> None:
    whole = allocate(want=claim())
    assert whole["consumedCapacity"] == {"memory": "23034Mi"}
    with pytest.raises(CannotAllocate):
        allocate([whole], want=claim(memory="1Mi"))
    with pytest.raises(CannotAllocate):
        allocate([allocate(want=claim(memory="1Mi"))], want=claim())


def test_what_the_device_does_not_have_cannot_be_asked_for() -> None:
    with pytest.raises(CannotAllocate):
        allocate(want=claim(cores="1"))
