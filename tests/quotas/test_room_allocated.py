"""What fits now, against what the sandbox's allocator really gives out, one claim after the other."""

import pytest

from sandbox.controllers.dra.allocate import Allocator, CannotAllocate, SelectorCache
from sandbox.controllers.dra.pools import stock_of, taken_devices
from sandbox.fleet.slices import device_classes
from tests.quotas import on_demand

CLASSES = {body["metadata"]["name"]: body for body in device_classes()}
MATCH = SelectorCache()


def given(slices: list[on_demand.Body], names: list[str], size: str) -> int:
    node = slices[0]["spec"]["nodeName"]
    taken = taken_devices([{"status": on_demand.holding(names, node)}])
    stock = stock_of(slices, node)
    allocator = Allocator(stock.candidates, CLASSES, taken, MATCH, stock.left(taken))
    count = 0
    while True:
        try:
            allocator.allocate([{"spec": on_demand.claim_of(size)}])
        except CannotAllocate:
            return count
        count += 1


@pytest.mark.parametrize("model", ["H100 80GB", "A100 40GB"])
def test_what_is_free_is_what_the_allocator_gives_out(model: str) -> None:
    plan = on_demand.fleet(1, model)
    slices = on_demand.published(plan, "cut-0")
    seen = set()
    for seed in range(12):
        names = on_demand.held(slices, seed, most=seed)
        for size in on_demand.sizes(plan):
            free = on_demand.room(slices, names, size)
            assert given(slices, names, size) == free, (seed, size, names)
            seen.add(free)
    assert len(seen) > 5, "from nothing to a board full of the smallest"
