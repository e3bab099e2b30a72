"""G3: notebooks of the product beside those of JupyterHub with KubeSpawner, on one real control plane.

Three sides by turns: the product; the peer on equal work (Kueue admits its pods, and each has a Service); the
bare peer (no queue, no Service). Every notebook has the same image, room, device and volume. While a hub is
measured the product stands still; idle hubs do not, because their watches would break. What happens in the
cluster is timed by the API server's audit log: a pod exists when it is created, and is admitted by Kueue's
last write on it before it is bound to a node.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

from apps.workloads.specs import NOTEBOOK_HOME
from bench import peer, processes
from bench.audit import Call
from bench.figures import Ratio, milliseconds
from bench.rig import CLEARED, Rig, rig, until
from bench.sides import Ours, Side, Theirs
from tests.controlplane.fleet import FLEETS

FLEET, OFFER, RESOURCE = "wide", "h100-1g-10gb", "allotment.dev/h100-1g-10gb"
DEVICES = sum(len(gpu.slices) for node in FLEETS[FLEET] for gpu in node.gpus)
CLICKS = 10
"""Single requests of each side in each round, after the burst."""
CLICKED = ("ours", "peer")
WARM = 8
PAUSE = 0.5
PATIENCE = 300
KUEUE, SCHEDULER = "kueue", "system:kube-scheduler"

Line = dict[str, Any]
Parts = dict[str, float]
Turns = dict[str, "Turn"]


@dataclass
class Turn:
    """What one side took for one burst or one click."""

    moments: dict[str, list[float]]
    """Seconds after the first request, of each notebook: answer, pod (it exists), gate (Kueue lets it in)."""
    cpu: dict[str, Parts]
    """CPU seconds by part: its own, PostgreSQL, the plane."""
    writes: Counter[str]
    own_writes: int
    counts: Parts
    memory: Parts
    clicks: list["Turn"] = field(default_factory=list)

    def stages(self) -> Parts:
        """Mean milliseconds from one stage of a notebook to the next."""
        stages, before = {}, 0.0
        for name, moments in self.moments.items():
            if moments:
                stages[f"{name}_ms"] = round((mean(moments) - before) * 1000, 1)
                before = mean(moments)
        return stages

    def per_second(self, stage: str) -> float:
        """Notebooks of a burst over the time until the last of them was there."""
        return len(self.moments[stage]) / max(self.moments[stage])


class Beside:
    """The rounds of all three sides."""

    def __init__(self, rig: Rig, sides: Sequence[Side]) -> None:
        self.rig, self.sides = rig, sides

    def round(self, number: int) -> Sequence[Side]:
        """The order of a round: every second one is the other way round."""
        return self.sides if number % 2 == 0 else self.sides[::-1]

    def turn(self, side: Side, number: int, size: int, clicks: int) -> Turn:
        """A burst of this size, then so many single clicks; everything is removed afterwards."""
        names = [f"r{number}-{n}" for n in range(size + clicks)]
        others = [] if side.name == "ours" else self.rig.product()
        self.rig.quiet()
        with processes.standing_still(others):
            side.prepare(names)
            self._quiet(side)
            turn = self._measured(side, names[:size], size)
            turn.memory = {part: _memory(pids) for part, pids in side.groups().items()}
            for n, name in enumerate(names[size:], 1):
                self._quiet(side)
                turn.clicks.append(self._measured(side, [name], size + n))
            self._quiet(side)
            side.remove(names)
            self._quiet(side)
        return turn

    def _measured(self, side: Side, names: Sequence[str], ready: int) -> Turn:
        audit, size = self.rig.audit, len(names)
        audit.new()
        before, counts = self._cpu(side), side.counts()
        began, answered = asyncio.run(side.ask(names))
        calls = audit.until(
            lambda so_far: len(_bound(so_far, side.namespace)) >= size, PATIENCE, "all to be bound"
        )
        until(lambda: side.ready() >= ready, f"{ready} notebooks of {side.name} to run", CLEARED, every=0.5)
        cpu = {
            whose: {part: seconds - before[whose][part] for part, seconds in parts.items()}
            for whose, parts in self._cpu(side).items()
        }
        calls = [call for call in calls + audit.new() if _concerns(call, side)]
        exists = [call.answered for call in calls if _is_pod_of(call, side)]
        if len(exists) != size:
            raise AssertionError(f"{len(exists)} pods of {side.name} instead of {size}")
        stages = {
            "answer": answered,
            "pod": exists,
            "gate": admitted(calls, side.namespace),
        }
        moments = {name: [moment - began for moment in stage] for name, stage in stages.items()}
        writes = [call for call in calls if call.is_write]
        own = sum(call.user == side.user for call in writes)
        by_whom = Counter(f"{_short(call.user)} {call.verb} {call.resource}" for call in writes)
        counted = {what: round((count - counts[what]) / size, 2) for what, count in side.counts().items()}
        return Turn(moments, cpu, by_whom, own, counted, memory={})

    def _cpu(self, side: Side) -> dict[str, Parts]:
        postgres = {"postgres": self.rig.groups()["postgres"]}
        groups = {"own": side.groups(), "database": postgres, "plane": self._plane()}
        return {
            whose: {part: processes.cpu_seconds(pids) for part, pids in parts.items()}
            for whose, parts in groups.items()
        }

    def _plane(self) -> dict[str, list[int]]:
        return {name: [record.pid] for name, record in self.rig.plane._state.processes.items()}

    def _quiet(self, side: Side) -> None:
        plane = [pid for pids in self._plane().values() for pid in pids]
        processes.until_quiet([*_pids(side), *plane], seconds=CLEARED)
        time.sleep(PAUSE)


def _pids(side: Side) -> list[int]:
    return [pid for pids in side.groups().values() for pid in pids]


def _memory(pids: Sequence[int]) -> float:
    return round(processes.proportional_bytes(pids) / 1e6, 1)


def _short(user: str) -> str:
    return user.rpartition(":")[2]


def _concerns(call: Call, side: Side) -> bool:
    return side.namespace in (call.namespace, call.name) or call.resource == "persistentvolumes"


def _is_pod_of(call: Call, side: Side) -> bool:
    return (call.user, call.resource, call.code) == (side.user, "pods", 201)


def _bound(calls: Sequence[Call], namespace: str) -> dict[str, float]:
    """When each pod was bound to a node."""
    is_bound = (SCHEDULER, "create", "pods/binding", namespace, 201)
    return {
        call.name: call.received
        for call in calls
        if (call.user, call.verb, call.resource, call.namespace, call.code) == is_bound
    }


def admitted(calls: Sequence[Call], namespace: str) -> list[float]:
    """When Kueue took its gate off each pod: its last write on the pod before that was bound."""
    bound, opened = _bound(calls, namespace), dict[str, float]()
    for call in sorted(calls, key=lambda call: call.answered):
        about = (call.user, call.resource, call.namespace, call.code)
        is_write = about == (KUEUE, "pods", namespace, 200) and call.is_write
        if is_write and call.answered < bound.get(call.name, 0):
            opened[call.name] = call.answered
    return list(opened.values())


def prepared(size: int) -> AbstractContextManager[Rig]:
    """A rig whose two tenants may each hold every notebook of a round."""
    if 2 * (size + CLICKS) > DEVICES:
        raise ValueError(f"{DEVICES} devices are enough for {DEVICES // 2 - CLICKS} requests in a round")
    return rig(fleet=FLEET, offer=OFFER, held=size + CLICKS)


def notebooks(place: Rig, *, rounds: int, size: int) -> Iterator[Line]:
    """Rounds of a burst of this size and of single clicks, then a line for each goal."""
    plain = peer.notebook("peer", image="python:3.13", resource=RESOURCE, home=NOTEBOOK_HOME)
    place.plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "peer"}}])
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder, ExitStack() as stack:
        hubs = {
            "peer": peer.queued({**plain, "namespace": place.namespace("bare")}),
            "bare_peer": plain,
        }
        running = {
            name: stack.enter_context(peer.running(place.plane, Path(folder) / name, settings))
            for name, settings in hubs.items()
        }
        beside = Beside(place, [Ours(place), *(Theirs(name, place, hub) for name, hub in running.items())])
        for side in beside.sides:
            beside.turn(side, -1, WARM, 1)
        every: list[Turns] = [{} for _ in range(rounds)]
        for number, turns in enumerate(every):
            for side in beside.round(number):
                turns[side.name] = beside.turn(side, number, size, CLICKS if side.name in CLICKED else 0)
                yield _turn(number, size, side.name, turns[side.name])
    yield from _goals(every, size)


def _turn(number: int, size: int, name: str, turn: Turn) -> Line:
    return {
        "suite": "g3", "round": number, "n": size, "side": name,
        "pods_per_second": round(turn.per_second("pod"), 1),
        "admitted_per_second": round(turn.per_second("gate"), 1) if turn.moments["gate"] else None,
        "own_cpu_ms_each": _each(turn.cpu["own"], size), "plane_cpu_ms_each": _each(turn.cpu["plane"], size),
        "counts": turn.counts, "memory_mb": turn.memory, "burst": turn.stages(),
        "click": _mean([click.stages() for click in turn.clicks]),
    }  # fmt: skip


def _goals(every: Sequence[Turns], size: int) -> Iterator[Line]:
    ours, theirs, bare = ([turns[name] for turns in every] for name in ("ours", "peer", "bare_peer"))
    what = "pods admitted per second, all asked at once, over the peer on equal work"
    yield _rate(what, "gate", 1.2, ours, theirs)
    yield _rate(
        "pods per second until they exist, all asked at once, over the bare peer", "pod", 0.5, ours, bare
    )
    yield from _costs(ours, theirs, size)
    clicks = {name: [click for turns in every for click in turns[name].clicks] for name in CLICKED}
    yield _click({name: [click.moments["pod"][0] for click in of_side] for name, of_side in clicks.items()})
    yield {
        "suite": "g3", "what": "mean ms of each stage of a click and of a burst; what ours did per notebook",
        **{f"{name}_click": _mean([turn.stages() for turn in turns]) for name, turns in clicks.items()},
        **{f"{name}_burst": _mean([turns[name].stages() for turns in every]) for name in every[0]},
        "ours_counts": _mean([turn.counts for turn in ours]),
    }  # fmt: skip
    yield {
        "suite": "g3", "what": "writes to the API server per notebook: all, and its own", "n": size,
        **_writes("ours", ours, size), **_writes("peer", theirs, size),
    }  # fmt: skip


def _rate(what: str, stage: str, goal: float, ours: Sequence[Turn], theirs: Sequence[Turn]) -> Line:
    mine, other = ([turn.per_second(stage) for turn in side] for side in (ours, theirs))
    ratio = Ratio.of(mine, other)
    return _goal(what, f">= {goal}", holds=ratio.value >= goal) | {
        **ratio.shown(),
        "ours_per_second": round(median(mine), 1), "theirs_per_second": round(median(other), 1),
    }  # fmt: skip


def _costs(ours: Sequence[Turn], theirs: Sequence[Turn], size: int) -> Iterator[Line]:
    def each(turns: Sequence[Turn], whose: str) -> Parts:
        return _mean([_each(turn.cpu[whose], size) for turn in turns])

    own, others = each(ours, "own"), each(theirs, "own")
    yield _goal("own CPU ms per notebook", "<= 45", holds=_sum(own) <= 45) | {
        "ours_ms": _sum(own), "peer_ms": _sum(others), "ours": own, "peer": others,
        "beside_ours": each(ours, "database"),
    }  # fmt: skip
    ratio = Ratio.of(*([_sum(turn.cpu["plane"]) for turn in side] for side in (ours, theirs)))
    what = "the control plane's CPU per notebook, over the peer on equal work"
    yield _goal(what, "<= 1.1", holds=ratio.value <= 1.1) | {
        **ratio.shown(), "ours": each(ours, "plane"), "peer": each(theirs, "plane"),
    }  # fmt: skip
    mine, other = (_mean([turn.memory for turn in side]) for side in (ours, theirs))
    yield _goal("PSS in MB of the whole stack, all notebooks running", "<= 350", holds=_sum(mine) <= 350) | {
        "ours_mb": _sum(mine), "peer_mb": _sum(other), "ours": mine, "peer": other,
    }  # fmt: skip


def _click(times: dict[str, list[float]]) -> Line:
    ours = times["ours"]
    holds = median(ours) <= 0.06 and _p95(ours) <= 0.12
    return _goal("one click until its pod exists, idle", "<= 60, p95 <= 120 ms", holds=holds) | {
        "n": len(ours),
        **{f"{name}_p50_ms": milliseconds(seconds) for name, seconds in times.items()},
        **{f"{name}_p95_ms": round(_p95(seconds) * 1000, 1) for name, seconds in times.items()},
    }


def _writes(name: str, turns: Sequence[Turn], size: int) -> Line:
    n = size * len(turns)
    by_whom = sum((turn.writes for turn in turns), Counter[str]())
    return {
        f"{name}_all": round(by_whom.total() / n, 1),
        f"{name}_own": round(sum(turn.own_writes for turn in turns) / n, 1),
        f"{name}_writes": {what: round(count / n, 2) for what, count in by_whom.most_common()},
    }


def _goal(what: str, goal: str, *, holds: bool) -> Line:
    return {"suite": "g3", "what": what, "goal": goal, "holds": holds}


def _sum(parts: Parts) -> float:
    return round(sum(parts.values()), 2)


def _each(cpu: Parts, n: int) -> Parts:
    return {part: round(seconds / n * 1000, 1) for part, seconds in sorted(cpu.items())}


def _mean(parts: Sequence[Parts]) -> Parts:
    return {name: round(mean(part[name] for part in parts), 1) for name in (parts or [{}])[0]}


def _p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20)[-1]
