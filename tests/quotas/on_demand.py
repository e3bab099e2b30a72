"""Boards that are cut on demand, as the sandbox publishes them, in states drawn from a seed."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from apps.cluster.mirror.rules import hardware
from apps.quotas.catalogue.rules.room import placeable_devices
from sandbox.fleet.slices import resource_slices
from sandbox.fleet.spec import API_VERSION, Fleet, parse_fleet

Body = dict[str, Any]
WHOLE = ""
DRIVER = "gpu.nvidia.com"


def fleet(nodes: int, model: str = "H100 80GB", boards: int = 2) -> Fleet:
    sharing = "sharing: {mode: mig-on-demand}"
    pool = f"{{name: cut, model: {model}, nodes: {nodes}, gpusPerNode: {boards}, {sharing}}}"
    return parse_fleet(f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n  - {pool}\n")


def sizes(plan: Fleet) -> list[str]:
    """The whole board and each of its profiles."""
    (pool,) = plan.pools
    assert pool.model is not None
    return [WHOLE, *(profile.name for profile in pool.model.profiles)]


def held(slices: Sequence[Body], seed: int, most: int) -> list[str]:
    """So many devices as fit of those that chance takes, by plain sums over what is published."""
    devices = [device for body in slices for device in body["spec"].get("devices", ())]
    there = {
        (group["name"], name): _amount(value)
        for body in slices
        for group in body["spec"].get("sharedCounters", ())
        for name, value in group["counters"].items()
    }
    used: Counter[tuple[str, str]] = Counter()
    found: list[str] = []
    for device in random.Random(seed).sample(devices, len(devices)):
        after = used + Counter(dict(_takes(device)))
        if len(found) < most and all(amount <= there[counter] for counter, amount in after.items()):
            used = after
            found.append(device["name"])
    return found


def _takes(device: Body) -> Iterator[tuple[tuple[str, str], int]]:
    for each in device["consumesCounters"]:
        for name, value in each["counters"].items():
            yield (each["counterSet"], name), _amount(value)


def _amount(value: dict[str, str]) -> int:
    return int(value["value"].removesuffix("Mi"))


def claim_of(size: str) -> Body:
    """Asks for one device of a size."""
    exact: Body = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    if size != WHOLE:
        expression = f"device.attributes['{DRIVER}'].profile == '{size}'"
        exact |= {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}}


def holding(names: Sequence[str], node: str) -> Body:
    """The status of a claim that has these devices."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": name} for name in names]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}}


def room(slices: Sequence[Body], names: Sequence[str], size: str) -> int:
    """How many of a size the product says are free beside these."""
    every = hardware.devices(slices)
    own = [device for device in every if device.profile == size]
    taken = {device.key for device in every if device.name in names}
    assert len(taken) == len(names)
    return placeable_devices(own, every, held=taken, working={device.node for device in every}).free


def published(plan: Fleet, node: str) -> list[Body]:
    return resource_slices(plan, node, seed=7)
