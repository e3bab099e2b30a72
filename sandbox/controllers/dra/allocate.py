"""Structured allocation: which devices of a node satisfy the claims of a pod. Pure: what the node has,
classes and use in, result out.

The first set that fits in the order of the devices, as the scheduler searches it: what leaves a later request
without a device is taken back. Handles ExactCount and All, class and request selectors, matchAttribute
constraints, device taints, shared counters, and shares of a device by its capacity (of one device at most one
for each request; policies of a capacity are not read). firstAvailable and admin access are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sandbox.api.meta.objects import Obj, dig
from sandbox.api.meta.quantity import parse
from sandbox.controllers.affinity import untolerated
from sandbox.controllers.dra.pools import Candidate, Capacity, DeviceKey, SharedCounter
from sandbox.controllers.dra.selectors import SelectorError, matches

MOST_TRIES = 20_000
"""Devices that are tried for one pod on one node; kube-scheduler gives up after ten seconds instead."""


class CannotAllocate(Exception):
    """No set of free devices of this node satisfies the claims."""


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


@dataclass(frozen=True, eq=False)
class Request:
    """One request of one claim: how many of which devices, and which of its claim's constraints bind it."""

    claim: int
    name: str
    wanted: int
    klass: Obj
    exact: Obj
    constraints: tuple[tuple[int, str], ...]
    """By their place in the claim, with the attribute that must be one value."""


Chosen = list[tuple[Request, Candidate]]


@dataclass
class Allocator:
    """Allocates on one node; `left` is what its counters have beside the devices that are taken, `consumed`
    what others have of those in shares.
    """

    candidates: Sequence[Candidate]
    classes: Mapping[str, Obj]
    taken: set[DeviceKey]
    match: Match
    left: dict[SharedCounter, int] = field(default_factory=dict)
    consumed: Counter[Capacity] = field(default_factory=Counter)
    _tries: int = 0

    def allocate(self, claims: Sequence[Obj]) -> list[list[Obj]]:
        """The allocation results of each claim of a pod. Raises CannotAllocate, or SelectorError for a broken
        selector.
        """
        requests = [each for number, claim in enumerate(claims) for each in self._requests(number, claim)]
        chosen: Chosen = []
        self._tries = 0
        if not self._search(requests, chosen, {}, start=0):
            raise CannotAllocate("cannot allocate all claims")
        return [
            [_result(request, candidate) for request, candidate in chosen if request.claim == number]
            for number in range(len(claims))
        ]

    def _requests(self, number: int, claim: Obj) -> Iterator[Request]:
        devices = dig(claim, "spec", "devices", default={})
        constraints = [
            (place, each) for place, each in enumerate(devices.get("constraints") or ())
            if "matchAttribute" in each
        ]  # fmt: skip
        for body in devices.get("requests") or ():
            name, exact = body["name"], body.get("exactly")
            if not exact or exact.get("adminAccess"):
                raise CannotAllocate(f"request {name}: only exact requests are simulated")
            klass = self.classes.get(exact["deviceClassName"])
            if klass is None:
                raise CannotAllocate(
                    f"request {name}: device class {exact['deviceClassName']} does not exist"
                )
            bound = tuple((at, each["matchAttribute"]) for at, each in constraints if _covers(each, name))
            request = Request(number, name, int(exact.get("count", 1)), klass, exact, bound)
            yield self._of_all(request) if exact.get("allocationMode") == "All" else request

    def _of_all(self, request: Request) -> Request:
        """RULE: All means every device that fits, at least one, and none of them taken."""
        fitting = sum(self._fits(request, candidate) for candidate in self.candidates)
        return replace(request, wanted=max(fitting, 1))

    def _search(
        self, requests: Sequence[Request], chosen: Chosen, values: dict[tuple[int, int], str], *, start: int
    ) -> bool:
        """Give the first request what it still lacks, of its devices from `start` on, then the others."""
        if not requests:
            return True
        request = requests[0]
        lacking = request.wanted - sum(own is request for own, _ in chosen)
        if not lacking:
            return self._search(requests[1:], chosen, values, start=0)
        for place in range(start, len(self.candidates) - lacking + 1):
            candidate = self.candidates[place]
            if candidate.key in self.taken or not self._fits(request, candidate):
                continue
            bound = self._bound(request, candidate, values)
            if bound is None or not self._suffices(request, candidate):
                continue
            self._take(request, candidate, 1)
            chosen.append((request, candidate))
            if self._search(requests, chosen, bound, start=place + 1):
                return True
            chosen.pop()
            self._take(request, candidate, -1)
        return False

    def _bound(
        self, request: Request, candidate: Candidate, values: dict[tuple[int, int], str]
    ) -> dict[tuple[int, int], str] | None:
        """The values of its claim's constraints with this device; None where it has another or none."""
        self._tries += 1
        if self._tries > MOST_TRIES:
            raise CannotAllocate("took too long")
        bound = dict(values)
        for at, name in request.constraints:
            value = _attribute(candidate, name)
            if value == "" or bound.setdefault((request.claim, at), value) != value:
                return None
        return bound

    def _suffices(self, request: Request, candidate: Candidate) -> bool:
        wanted = candidate.consumed_by(request.exact)
        if wanted is None or any(self.left.get(counter, 0) < amount for counter, amount in candidate.takes):
            return False
        capacity = candidate.device.get("capacity") or {}
        return all(
            self.consumed[(*candidate.key, name)] + int(parse(amount))
            <= int(parse(str(capacity[name]["value"])))
            for name, amount in wanted.items()
        )

    def _take(self, request: Request, candidate: Candidate, sign: int) -> None:
        if candidate.is_in_shares:
            for name, text in (candidate.consumed_by(request.exact) or {}).items():
                self.consumed[(*candidate.key, name)] += sign * int(parse(text))
        else:
            self.taken ^= {candidate.key}
        for counter, amount in candidate.takes:
            self.left[counter] -= sign * amount

    def _fits(self, request: Request, candidate: Candidate) -> bool:
        """Whether a request may have the device at all."""
        klass, exact = request.klass, request.exact
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


def _result(request: Request, candidate: Candidate) -> Obj:
    share = {"shareID": str(uuid4()), "consumedCapacity": candidate.consumed_by(request.exact) or {}}
    return {
        "request": request.name,
        "driver": candidate.driver,
        "pool": candidate.pool,
        "device": candidate.device["name"],
        **(share if candidate.is_in_shares else {}),
    }


def _covers(constraint: Obj, request: str) -> bool:
    listed = constraint.get("requests") or ()
    return not listed or request in listed


def _attribute(candidate: Candidate, name: str) -> str:
    attributes = candidate.device.get("attributes") or {}
    domain, _, short = name.rpartition("/")
    value = attributes.get(name) or (attributes.get(short) if domain == candidate.driver else None)
    return "" if value is None else str(next(iter(value.values())))
