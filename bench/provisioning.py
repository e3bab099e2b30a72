"""G1, G2 and G4: notebooks through REST against a bare loop that applies the same bodies to the same server.

Every time is the API server's own word (its audit log): from the first request that is sent to the answer
to the last apply. While the bare loop runs, the product stands still: the reference has the machine alone.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import LABEL_UID
from apps.workloads.manifests.pods import TEMPLATE
from bench import bare, processes
from bench.audit import PRODUCT, Call
from bench.bare import IN_FLIGHT, Body
from bench.figures import Ratio, milliseconds
from bench.rig import OWNED, Rig, until

PATIENCE = 180
"""Seconds for a round, and one more for each of its requests."""

Line = dict[str, Any]


@dataclass
class Side:
    """What one side took, round by round."""

    seconds: list[float] = field(default_factory=list)
    cpu: Counter[str] = field(default_factory=Counter)
    last: Counter[str] = field(default_factory=Counter)
    """CPU of the last round alone: a cost that grows from round to round shows where."""


class Pairs:
    """Alternating rounds of both sides in one run."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.ours, self.reference = Side(), Side()
        self.namespaces = {tenant: rig.namespace(tenant) for tenant in ("vision", "bare")}
        self.bodies, self.identity = self._pattern()
        self.applied = {KINDS[body["kind"]].plural for body in self.bodies}
        self.calls: list[Call] = []

    def _pattern(self) -> tuple[list[Body], dict[str, str]]:
        """The bodies that the product applies for one notebook, as it says itself."""
        row = self.rig.submit("pattern")
        bodies = self.rig.rest.get(f"/workloads/{row['id']}/manifests").json()["items"]
        name = next(body["metadata"]["name"] for body in bodies if body["kind"] == "StatefulSet")
        identity = {
            "name": name,
            "uid": row["id"],
            "namespace": self.namespaces["vision"],
            "tenant": "vision",
        }
        until(lambda: len(self.rig.left(identity["namespace"])) >= len(bodies), "the pattern to be applied")
        self.rig.clear()
        return bodies, identity

    def round(self, number: int, size: int) -> None:
        """Both sides once, every second time the other way round, then everything is removed."""
        sides: list[Callable[[int, int], None]] = [self._ours, self._bare]
        for side in sides if number % 2 == 0 else reversed(sides):
            side(number, size)
            self.rig.quiet()
        self._compare(size)
        self.rig.clear(self.namespaces["bare"])

    def _ours(self, number: int, size: int) -> None:
        tokens = self.rig.tokens(size)
        with self._measured(self.ours, "vision", size) as started:
            slugs = [f"n{number}-{n}" for n in range(size)]
            began, _ = asyncio.run(self.rig.ask(slugs, tokens))
            started.append(began)

    def _bare(self, _number: int, size: int) -> None:
        new = {"namespace": self.namespaces["bare"], "tenant": "bare"}
        requests = [
            bare.renamed(self.bodies, old=self.identity, new=bare.fresh(self.identity, **new))
            for _ in range(size)
        ]
        still = processes.standing_still(self.rig.product())
        with still, self._measured(self.reference, "bare", size) as started:
            started.append(asyncio.run(bare.apply_all(self.rig.server, requests)))

    def _measured(self, side: Side, tenant: str, size: int) -> "_Measured":
        return _Measured(self, side, self.namespaces[tenant], size)

    def _compare(self, size: int) -> None:
        """Both namespaces hold the same objects, names apart; every row is there and synced."""
        ours, reference = (self._objects(tenant) for tenant in ("vision", "bare"))
        if len(ours) != size * len(self.bodies) or ours != reference:
            different = next((pair for pair in zip(ours, reference, strict=False) if pair[0] != pair[1]), "")
            raise AssertionError(f"{len(ours)} and {len(reference)} objects differ: {different}")
        rows, synced = self.rig.alive(), self.rig.alive(synced=True)
        if (rows, synced) != (size, size):
            raise AssertionError(f"{rows} rows instead of {size}, {synced} of them synced")

    def _objects(self, tenant: str) -> list[str]:
        """Every object as text, without what is its own."""
        asked = ("get", ",".join(self.applied), "-l", OWNED, "-o", "json")
        found = json.loads(self.rig.plane.kubectl("-n", self.namespaces[tenant], *asked))["items"]
        return sorted(_neutral(body, self.namespaces[tenant], tenant) for body in found)


class _Measured:
    """Times one side: from its own first request to the server's answer to the last apply."""

    def __init__(self, pairs: Pairs, side: Side, namespace: str, size: int) -> None:
        self.pairs, self.side, self.namespace = pairs, side, namespace
        self.expected = size * len(pairs.bodies)

    def __enter__(self) -> list[float]:
        self.started: list[float] = []
        self.pairs.rig.audit.new()
        self.before = self.pairs.rig.cpu()
        return self.started

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            return
        calls = self.pairs.rig.audit.until(
            lambda found: len(self._applies(found)) >= self.expected,
            PATIENCE + self.expected,
            "all to be applied",
        )
        after = self.pairs.rig.cpu()
        self.side.last = Counter({part: after[part] - self.before[part] for part in after})
        self.side.cpu.update(self.side.last)
        self.side.seconds.append(max(self._applies(calls).values()) - self.started[0])
        self.pairs.calls += calls

    def _applies(self, calls: Sequence[Call]) -> dict[tuple[str, str], float]:
        """The first successful apply of each object."""
        found: dict[tuple[str, str], float] = {}
        for call in calls:
            is_apply = (call.user, call.verb, call.namespace) == (PRODUCT, "patch", self.namespace)
            if is_apply and call.resource in self.pairs.applied and call.code in (200, 201):
                found.setdefault((call.resource, call.name), call.answered)
        return found


def _neutral(body: Body, namespace: str, tenant: str) -> str:
    kept = bare.plain(body)
    metadata = kept["metadata"]
    # A digest of names; what the cluster notes on the volume claim of the one that runs; a notebook's token.
    notes = metadata.get("annotations", {})
    metadata["annotations"] = {k: v for k, v in notes.items() if "volume" not in k and k != TEMPLATE}
    kept.get("spec", {}).pop("volumeName", None)
    if kept["kind"] == "Secret":
        del kept["data"]
    text = json.dumps(kept, sort_keys=True)
    uid, name = metadata["labels"][LABEL_UID], metadata["name"]
    stem = name[: name.index(bare.tail(uid))] + bare.tail(uid)
    for word in (uid, stem, namespace):
        text = text.replace(word, "<own>")
    return text.replace(f'"{tenant}"', '"<tenant>"')


def throughput(rig: Rig, *, rounds: int, size: int) -> Iterator[Line]:
    """G1: notebooks provisioned per second, 16 requests in flight."""
    pairs = Pairs(rig)
    pairs.round(0, IN_FLIGHT)  # both sides warm
    pairs.ours, pairs.reference = Side(), Side()
    for number in range(rounds):
        pairs.round(number, size)
        yield _round("g1", number, pairs, size)
    per_second = [size / s for s in pairs.ours.seconds], [size / s for s in pairs.reference.seconds]
    n = rounds * size
    yield {
        "suite": "g1", "what": "notebooks applied per second, REST over bare loop", "n": n,
        **Ratio.of(*per_second).shown(), "goal": ">= 0.55", "aim": ">= 0.75",
        "ours_per_second": round(sorted(per_second[0])[rounds // 2], 1),
        "bare_per_second": round(sorted(per_second[1])[rounds // 2], 1),
        "ours_cpu_ms_each": _each(pairs.ours.cpu, n), "bare_cpu_ms_each": _each(pairs.reference.cpu, n),
    }  # fmt: skip


def click(rig: Rig, *, rounds: int) -> Iterator[Line]:
    """G2: one request on an idle machine until its last object is applied."""
    pairs = Pairs(rig)
    pairs.round(0, 1)
    pairs.ours, pairs.reference = Side(), Side()
    for number in range(rounds):
        pairs.round(number, 1)
        yield _round("g2", number, pairs, 1)
    ours, reference = pairs.ours.seconds, pairs.reference.seconds
    yield {
        "suite": "g2", "what": "click to all applied, idle, over a bare parallel apply", "n": rounds,
        **Ratio.of(ours, reference).shown(), "goal": "<= 2", "aim": "<= 1.5",
        "ours_p50_ms": milliseconds(ours), "bare_p50_ms": milliseconds(reference),
        "ours_p95_ms": round(quantiles(ours, n=20)[-1] * 1000, 1),
        "bare_p95_ms": round(quantiles(reference, n=20)[-1] * 1000, 1),
    }  # fmt: skip


def _round(suite: str, number: int, pairs: Pairs, size: int) -> Line:
    ours, reference = pairs.ours.seconds[-1], pairs.reference.seconds[-1]
    faster = reference / ours if suite == "g1" else ours / reference
    return {
        "suite": suite, "round": number, "n": size, "ours_seconds": round(ours, 4),
        "bare_seconds": round(reference, 4), "ratio": round(faster, 3),
        "ours_cpu_ms_each": _each(pairs.ours.last, size),
    }  # fmt: skip


def _each(cpu: Counter[str], n: int) -> dict[str, float]:
    return {part: round(seconds / n * 1000, 1) for part, seconds in sorted(cpu.items())}
