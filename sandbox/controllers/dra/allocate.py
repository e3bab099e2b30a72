"""Structured allocation: which devices of a node satisfy a claim. Pure: slices, classes and use in, result
out.

First fit in slice order, as the scheduler does. Handles ExactCount and All, class and request selectors,
matchAttribute constraints and device taints. firstAvailable, admin access and counters are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sandbox.api.meta.objects import Obj, dig
from sandbox.controllers.affinity import untolerated
from sandbox.controllers.dra.selectors import SelectorError, matches

DeviceKey = tuple[str, str, str]


class CannotAllocate(Exception):
    """No set of free devices of this node satisfies the claims."""


@dataclass(frozen=True)
class Candidate:
    """One published device."""

    driver: str
    pool: str
    device: Obj
    version: str = ""

    @property
    def key(self) -> DeviceKey:
        """What identifies it."""
        return self.driver, self.pool, self.device["name"]


Match = Callable[[str, Candidate], bool]


class SelectorCache:
    """Answers of selectors by published device; a new version of its slice asks again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, DeviceKey, str], bool | SelectorError] = {}

    def __call__(self, expression: str, candidate: Candidate) -> bool:
        """Whether the device satisfies the expression. Raises SelectorError as evaluation does."""
        key = (expression, candidate.key, candidate.version)
        if key not in self._known:
            try:
                self._known[key] = matches(expression, candidate.driver, candidate.device)
            except SelectorError as error:
                self._known[key] = error
        answer = self._known[key]
        if isinstance(answer, SelectorError):
            raise answer
        return answer


@dataclass
class Allocator:
    """Allocates on one node. `taken` grows with what it gives out, so that claims of one pod do not
    collide.
    """

    candidates: list[Candidate]
    classes: Mapping[str, Obj]
    taken: set[DeviceKey]
    match: Match

    def allocate(self, claim: Obj) -> list[Obj]:
        """The allocation results of one claim. Raises CannotAllocate, or SelectorError for a broken
        selector.
        """
        results: list[Obj] = []
        devices = dig(claim, "spec", "devices", default={})
        for request in devices.get("requests") or ():
            exact = request.get("exactly")
            if not exact or exact.get("adminAccess"):
                raise CannotAllocate(f"request {request['name']}: only exact requests are simulated")
            results += self._request(request["name"], exact, devices.get("constraints") or ())
        return results

    def _request(self, name: str, exact: Obj, constraints: Iterable[Obj]) -> list[Obj]:
        klass = self.classes.get(exact["deviceClassName"])
        if klass is None:
            raise CannotAllocate(f"request {name}: device class {exact['deviceClassName']} does not exist")
        everything = exact.get("allocationMode") == "All"
        wanted = len(self.candidates) if everything else int(exact.get("count", 1))
        keys = [c["matchAttribute"] for c in constraints if "matchAttribute" in c and _covers(c, name)]
        chosen = self._choose(klass, exact, wanted, keys)
        if len(chosen) < wanted and not (everything and chosen):
            raise CannotAllocate("cannot allocate all claims")
        self.taken |= {candidate.key for candidate in chosen}
        return [
            {"request": name, "driver": c.driver, "pool": c.pool, "device": c.device["name"]} for c in chosen
        ]

    def _choose(self, klass: Obj, exact: Obj, wanted: int, keys: list[str]) -> list[Candidate]:
        """First fit; with constraints, one attempt per value of the matched attributes."""
        chosen: dict[tuple[str, ...], list[Candidate]] = {}
        for candidate in self.candidates:
            if candidate.key in self.taken or not self._selectable(klass, exact, candidate):
                continue
            group = tuple(_attribute(candidate, key) for key in keys)
            if any(value == "" for value in group):
                continue
            chosen.setdefault(group, []).append(candidate)
            if len(chosen[group]) == wanted:
                return chosen[group]
        return max(chosen.values(), key=len, default=[])

    def _selectable(self, klass: Obj, exact: Obj, candidate: Candidate) -> bool:
        taints = [t for t in candidate.device.get("taints") or () if t.get("effect") != "None"]
        if untolerated(taints, exact.get("tolerations") or ()) is not None:
            return False
        sources = ((f"class {klass['metadata']['name']}", klass["spec"]), ("claim", exact))
        for origin, spec in sources:
            for index, selector in enumerate(spec.get("selectors") or ()):
                try:
                    if not self.match(selector["cel"]["expression"], candidate):
                        return False
                except SelectorError as error:
                    raise SelectorError(f"{origin}: selector #{index}: {error}") from error
        return True


def _covers(constraint: Obj, request: str) -> bool:
    listed = constraint.get("requests") or ()
    return not listed or request in listed


def _attribute(candidate: Candidate, name: str) -> str:
    attributes = candidate.device.get("attributes") or {}
    domain, _, short = name.rpartition("/")
    value = attributes.get(name) or (attributes.get(short) if domain == candidate.driver else None)
    return "" if value is None else str(next(iter(value.values())))


def node_candidates(slices: Iterable[Obj], node: str) -> list[Candidate]:
    """The devices a node can use, of the newest generation of each pool, in slice order."""
    local = [s for s in slices if s["spec"].get("nodeName") == node or s["spec"].get("allNodes")]
    newest: dict[tuple[str, str], int] = {}
    for item in local:
        pool = (item["spec"]["driver"], item["spec"]["pool"]["name"])
        newest[pool] = max(newest.get(pool, 0), int(item["spec"]["pool"]["generation"]))
    found = []
    for item in sorted(local, key=lambda s: s["metadata"]["name"]):
        spec = item["spec"]
        if int(spec["pool"]["generation"]) == newest[spec["driver"], spec["pool"]["name"]]:
            version = f"{item['metadata'].get('uid', '')}/{item['metadata'].get('resourceVersion', '')}"
            found += [
                Candidate(spec["driver"], spec["pool"]["name"], d, version) for d in spec.get("devices") or ()
            ]
    return found


def taken_devices(claims: Iterable[Obj]) -> set[DeviceKey]:
    """Every device some claim holds."""
    return {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in dig(claim, "status", "allocation", "devices", "results", default=[])
        if not result.get("adminAccess")
    }
