"""A past for the product to import: some days of work on a fleet, as files of events, samples and truth.

Nothing runs: who held which device follows from who came when (`past`), and what the exporters would have
said follows from that (`series`), column by column. The same plan writes the same files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from sandbox.api.meta.objects import Obj, timestamp
from sandbox.fleet import dcgm, events, past
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.devices import Device, Gpu, gpu_devices, node_gpus
from sandbox.fleet.load import IDLE
from sandbox.fleet.past import Arrival, Offer, Run, Work
from sandbox.fleet.series import GpuSeries, Line, Span
from sandbox.fleet.spec import Fleet, SharingMode, load_fleet
from sandbox.fleet.telemetry import Holder, Reading
from sandbox.fleet.walk import key_of, unit

TENANTS = ("vision", "speech", "robotics")
_ARRIVALS_PER_DEVICE_AND_DAY = 3.0
_PIECE = 240
"""Moments of a line of samples: long enough to be worked on as columns, short enough to be kept in memory."""
_BEHAVIOURS = (
    (Behaviour.TRAIN, 0.34),
    (Behaviour.DATALOADER_BOUND, 0.14),
    (Behaviour.NOTEBOOK, 0.2),
    (Behaviour.OVERSIZED, 0.08),
    (Behaviour.IDLE_HOARDER, 0.06),
    (Behaviour.KEEPALIVE, 0.05),
    (Behaviour.ZOMBIE, 0.03),
    (Behaviour.LEAK, 0.03),
    (Behaviour.CRASH_LOOP, 0.02),
    (Behaviour.SILENT, 0.02),
    (Behaviour.INFERENCE, 0.02),
    (Behaviour.SLOW_START, 0.01),
)

_NOTEBOOKS = frozenset(
    {Behaviour.NOTEBOOK, Behaviour.IDLE_HOARDER, Behaviour.KEEPALIVE, Behaviour.ZOMBIE, Behaviour.SLOW_START}
)
_SERVICES = frozenset({Behaviour.INFERENCE, Behaviour.CRASH_LOOP})
_EXPLORING = (
    "explore", "scratch", "ablations", "paper-figs", "error-review", "data-check", "baseline", "debug-loss",
    "attention-maps", "hparam-notes", "demo-prep", "label-audit",
)  # fmt: skip
_SERVING = ("llm-chat", "embed-api", "ocr-serve", "rerank", "caption-api", "search-demo")
_TRAINING = (
    "bert-ft", "llama-lora", "vit-base", "resnet50", "clip-ft", "t5-eval", "diffusion-xl", "gnn-pre",
    "yolo-train", "whisper-ft", "wav2vec", "moe-small", "distil-run", "sweep-lr", "segformer", "rl-ppo",
)  # fmt: skip
"""What people call their notebooks, services and training runs: what they are after, never how it behaves."""


@dataclass(frozen=True)
class Plan:
    """What to write: `step` seconds between samples, `days` before `until`."""

    fleet: str
    seed: int
    days: int
    step: int
    tenants: tuple[str, ...]
    until: datetime
    people: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The usernames of a tenant that work there; of one that is not here nobody's in particular."""

    @property
    def start(self) -> datetime:
        """When it begins."""
        return self.until - timedelta(days=self.days)


def offers(plan: Fleet, seed: int) -> list[Offer]:
    """One offer per model and shape of device that DRA serves."""
    found: dict[tuple[str, str], list[Device]] = {}
    for node, pool in plan.node_pools():
        if pool.sharing.mode is SharingMode.TIME_SLICING:
            continue
        for gpu in node_gpus(plan, node, pool, seed):
            for device in gpu_devices(gpu):
                profile = device.instance.placement.profile.name if device.instance else ""
                found.setdefault((gpu.model.product_name, profile), []).append(device)
    return [_offer(product, profile, devices) for (product, profile), devices in sorted(found.items())]


def _offer(product: str, profile: str, devices: Sequence[Device]) -> Offer:
    short = product.removeprefix("NVIDIA ").split(" ")[0].split("-")[0].lower()
    return Offer(f"allotment.dev/{short}-{profile or 'whole'}".replace("+", "."), tuple(devices))


def arrivals(plan: Plan, listed: list[Offer]) -> Iterator[Arrival]:
    """Submissions in order of time: more by day than at night, hardly any at weekends."""
    start = plan.start
    found: list[tuple[datetime, str, Offer, Behaviour, int, float]] = []
    for offer in listed:
        total = max(1, round(offer.count * _ARRIVALS_PER_DEVICE_AND_DAY * plan.days))
        key = key_of(plan.seed, "arrivals", offer.resource)
        for number in range(total):
            at = start + timedelta(days=plan.days * unit(key, 5 * number))
            quiet = at.weekday() >= 5 or not 7 <= at.hour < 20
            if quiet and unit(key, 5 * number + 1) < 0.7:
                continue
            tenant = plan.tenants[int(unit(key, 5 * number + 2) * len(plan.tenants))]
            chosen = _choose(unit(key, 5 * number + 3))
            hours = 1 + 9 * unit(key, 5 * number + 4)
            found.append((at, tenant, offer, chosen, number, hours))
    titles = Titles(plan.seed, plan.people)
    for each in sorted(found, key=lambda a: (a[0], a[2].resource, a[4])):
        _, tenant, offer, chosen, number, _ = each
        draw = unit(key_of(plan.seed, "titles", offer.resource), number)
        yield Arrival(*each, *titles.give(tenant, chosen, draw))


class Title(NamedTuple):
    """A name, once in its tenant, and the username of whoever gave it; empty: nobody's in particular."""

    name: str
    person: str


class Titles:
    """Names for one past, given in the order of its submissions."""

    def __init__(self, seed: int, people: Mapping[str, Sequence[str]]) -> None:
        self._seed, self._people = seed, people
        self._given: Counter[tuple[str, str]] = Counter()

    def give(self, tenant: str, behaviour: Behaviour, draw: float) -> Title:
        """RULE: work of one name is one person's; the second is `bert-ft-2`."""
        names = _names(behaviour)
        name = names[int(draw * len(names))]
        count = self._given[tenant, name] = self._given[tenant, name] + 1
        people = self._people.get(tenant, ())
        person = people[int(unit(key_of(self._seed, tenant, name), 0) * len(people))] if people else ""
        return Title(name if count == 1 else f"{name}-{count}", person)


def _names(behaviour: Behaviour) -> Sequence[str]:
    if behaviour in _SERVICES:
        return _SERVING
    return _EXPLORING if behaviour in _NOTEBOOKS else _TRAINING


def _choose(draw: float) -> Behaviour:
    total = sum(share for _, share in _BEHAVIOURS)
    for behaviour, share in _BEHAVIOURS:
        draw -= share / total
        if draw < 0:
            return behaviour
    return Behaviour.TRAIN


def write(plan: Plan, out: Path) -> dict[str, Any]:
    """Write events.jsonl, samples.jsonl, truth.jsonl and manifest.json into `out`; the answer is the
    manifest.
    """
    out.mkdir(parents=True, exist_ok=True)
    work = list(past.live(plan.seed, list(arrivals(plan, offers(load_fleet(plan.fleet), plan.seed)))))
    told = _write_events(work, out, plan.until)
    count = _write_samples(plan, work, out)
    _write_lines(out / "truth.jsonl", (_truth(run) for run in _seen(work, plan.until)))
    manifest = {
        **{k: v for k, v in asdict(plan).items() if k != "until"},
        "from": timestamp(plan.start),
        "until": timestamp(plan.until),
        "events": told,
        "samples": count,
        "pods": sum(1 for _ in _seen(work, plan.until)),
        "sha256": hashlib.sha256((out / "samples.jsonl").read_bytes()).hexdigest(),
    }
    (out / "manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return manifest


def _write_events(work: Sequence[Work], out: Path, until: datetime) -> int:
    found = [event for each in work for event in events.events_of(each) if event.at < until]
    found.sort(key=lambda event: event.at)
    _write_lines(out / "events.jsonl", (event.line() for event in found))
    return len(found)


def _write_samples(plan: Plan, work: Sequence[Work], out: Path) -> int:
    """RULE: piece by piece, so that the lines come in order of time; the moments are the steps' ends."""
    fleet, start = load_fleet(plan.fleet), plan.start
    runs, owners = past.by_device(work), {run.uid: each for each in work for run in each.runs}
    every = [GpuSeries(gpu, runs) for gpu in _gpus(fleet, plan.seed)]
    steps, count = plan.days * 86_400 // plan.step, 0
    with (out / "samples.jsonl").open("wb") as file:
        for begins in range(0, steps, _PIECE):
            first = start + timedelta(seconds=plan.step * (begins + 1))
            span = Span(first, plan.step, min(_PIECE, steps - begins))
            for line in (line for each in every for line in each.lines(span)):
                told = {"until": timestamp(span.at(span.count - 1)), **_samples(fleet, line, owners)}
                file.write(orjson.dumps(told) + b"\n")
                count += line.span.count
    return count


def _gpus(fleet: Fleet, seed: int) -> Iterator[Gpu]:
    for node, pool in fleet.node_pools():
        yield from node_gpus(fleet, node, pool, seed)


def _samples(fleet: Fleet, line: Line, owners: dict[str, Work]) -> Obj:
    run, span = line.run, line.span
    holder = None
    if run is not None:
        holder = Holder(
            events.pod_of(owners[run.uid], run), run.container, events.claim_of(run), run.told, None
        )
    reading = Reading(line.device, IDLE, holder)
    labels = {**dcgm.device_labels(fleet, reading), **dcgm.holder_labels(fleet, reading)}
    return {
        "from": timestamp(span.first), "step": span.step, "count": span.count,
        "labels": labels, "values": line.columns,
    }  # fmt: skip


def _seen(work: Sequence[Work], until: datetime) -> Iterator[Run]:
    return (run for each in work for run in each.runs if run.placed < until)


def _truth(run: Run) -> Obj:
    return {
        "uid": run.uid,
        "namespace": run.arrival.tenant,
        "name": run.name,
        "behaviour": run.told.behaviour.value,
        "effective": run.told.effective,
        "parameters": dict(run.told.values),
    }


def _write_lines(path: Path, lines: Iterator[Obj]) -> None:
    with path.open("wb") as file:
        file.writelines(orjson.dumps(line) + b"\n" for line in lines)
