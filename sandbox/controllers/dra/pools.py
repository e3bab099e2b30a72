"""What a node may give out: the devices of its pools, and what is left of the counters that they share. Pure.

Source: kube-scheduler v1.36, dynamic-resource-allocation/structured (GatherPools, checkAvailableCounters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sandbox.api.meta.objects import Obj, dig
from sandbox.api.meta.quantity import parse

DeviceKey = tuple[str, str, str]
Pool = tuple[str, str]
"""Driver and name."""
SharedCounter = tuple[str, str, str, str]
"""Driver, pool, counter set and name."""
Capacity = tuple[str, str, str, str]
"""Driver, pool, device and name."""


@dataclass(frozen=True)
class Candidate:
    """One published device, and what it takes of its pool's counters."""

    driver: str
    pool: str
    device: Obj
    version: str = ""
    takes: tuple[tuple[SharedCounter, int], ...] = ()

    @property
    def key(self) -> DeviceKey:
        """What identifies it."""
        return self.driver, self.pool, self.device["name"]

    @property
    def is_in_shares(self) -> bool:
        """Whether several claims may have it at once, as long as its capacity lasts."""
        return bool(self.device.get("allowMultipleAllocations"))

    def consumed_by(self, exact: Obj) -> dict[str, str] | None:
        """What a request consumes of each capacity, in the words of the API; None: it asks for one that the
        device has not. RULE: of a capacity that it does not name it consumes all there is.
        """
        capacity = self.device.get("capacity") or {}
        asked = dig(exact, "capacity", "requests", default={})
        if asked.keys() - capacity.keys():
            return None
        return {name: str(asked.get(name, has["value"])) for name, has in capacity.items()}


@dataclass(frozen=True)
class Stock:
    """The devices that a node can use, in the order in which they are tried, and what its counters have."""

    candidates: tuple[Candidate, ...]
    counters: Mapping[SharedCounter, int]

    def left(self, taken: Collection[DeviceKey]) -> dict[SharedCounter, int]:
        """What is left of the counters beside the devices that are taken; below zero is nothing."""
        left = dict(self.counters)
        for candidate in self.candidates:
            if candidate.takes and candidate.key in taken:
                for counter, amount in candidate.takes:
                    left[counter] -= amount
        return left


def stock_of(slices: Iterable[Obj], node: str) -> Stock:
    """The node's devices, of the newest generation of each pool, by pool and slice.

    RULE: a pool gives nothing while slices of it are missing, or where a device takes of a counter that no
    slice has.
    """
    pools = {pool: found for pool, found in _newest(slices).items() if any(_serves(s, node) for s in found)}
    candidates: list[Candidate] = []
    counters: dict[SharedCounter, int] = {}
    for pool in sorted(pools):
        own = sorted(pools[pool], key=lambda body: str(body["metadata"]["name"]))
        there = dict(_counters(pool, own))
        usable = [each for body in own if _serves(body, node) for each in _candidates(pool, body)]
        is_valid = all(counter in there for each in usable for counter, _ in each.takes)
        if is_valid and len(own) == int(own[0]["spec"]["pool"]["resourceSliceCount"]):
            candidates += usable
            counters |= there
    return Stock(tuple(candidates), counters)


def node_candidates(slices: Iterable[Obj], node: str) -> list[Candidate]:
    """The devices a node can use."""
    return list(stock_of(slices, node).candidates)


def taken_devices(claims: Iterable[Obj]) -> set[DeviceKey]:
    """Every device some claim holds all of."""
    return {key for key, result in _held(claims) if not result.get("shareID")}


def consumed(claims: Iterable[Obj]) -> Counter[Capacity]:
    """What claims have of the devices that are in shares."""
    total = Counter[Capacity]()
    for key, result in _held(claims):
        if result.get("shareID"):
            for name, amount in (result.get("consumedCapacity") or {}).items():
                total[(*key, name)] += int(parse(str(amount)))
    return total


def _held(claims: Iterable[Obj]) -> Iterator[tuple[DeviceKey, Obj]]:
    for claim in claims:
        for result in dig(claim, "status", "allocation", "devices", "results", default=[]):
            if not result.get("adminAccess"):
                yield (result["driver"], result["pool"], result["device"]), result


def _newest(slices: Iterable[Obj]) -> dict[Pool, list[Obj]]:
    """The slices of the newest generation of each pool."""
    found: dict[Pool, list[Obj]] = {}
    for body in slices:
        spec = body["spec"]
        own = found.setdefault((spec["driver"], spec["pool"]["name"]), [])
        newest = own[0]["spec"]["pool"]["generation"] if own else spec["pool"]["generation"]
        if int(spec["pool"]["generation"]) > int(newest):
            own.clear()
        if int(spec["pool"]["generation"]) >= int(newest):
            own.append(body)
    return found


def _serves(body: Obj, node: str) -> bool:
    return bool(body["spec"].get("nodeName") == node or body["spec"].get("allNodes"))


def _counters(pool: Pool, slices: Iterable[Obj]) -> Iterator[tuple[SharedCounter, int]]:
    for body in slices:
        for group in body["spec"].get("sharedCounters") or ():
            for name, counter in group["counters"].items():
                yield (*pool, group["name"], name), int(parse(str(counter["value"])))


def _candidates(pool: Pool, body: Obj) -> Iterator[Candidate]:
    meta = body["metadata"]
    version = f"{meta.get('uid', '')}/{meta.get('resourceVersion', '')}"
    for device in body["spec"].get("devices") or ():
        yield Candidate(*pool, device, version, tuple(_takes(pool, device)))


def _takes(pool: Pool, device: Obj) -> Iterator[tuple[SharedCounter, int]]:
    for each in device.get("consumesCounters") or ():
        for name, counter in each["counters"].items():
            yield (*pool, each["counterSet"], name), int(parse(str(counter["value"])))
