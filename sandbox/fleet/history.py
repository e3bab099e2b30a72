"""A past for the product to import: some days of work on a fleet, as files of events, samples and truth.

Runs the real controllers on an in-memory cluster with a clock that jumps. The same plan writes the same
files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from sandbox import controllers
from sandbox.api.cluster.client import Client
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, dig, timestamp
from sandbox.api.storage.store import Change
from sandbox.controllers.kueue import names
from sandbox.fleet import behaviours, dcgm
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.devices import gpu_devices, node_gpus
from sandbox.fleet.plant import install_plant
from sandbox.fleet.spec import Fleet, SharingMode, load_fleet
from sandbox.fleet.telemetry import Telemetry
from sandbox.fleet.walk import key_of, unit

TENANTS = ("vision", "speech", "robotics")
RECORDED = (
    "pods",
    "jobs.batch",
    "statefulsets.apps",
    names.WORKLOADS,
    "resourceclaims.resource.k8s.io",
    "nodes",
)
_ARRIVALS_PER_DEVICE_AND_DAY = 3.0
# Heartbeats say nothing about the past; one a day keeps the files small.
_HEARTBEAT_SECONDS = 86_400.0
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


@dataclass(frozen=True)
class Plan:
    """What to write: `step` seconds between samples, `days` before `until`."""

    fleet: str
    seed: int
    days: int
    step: int
    tenants: tuple[str, ...]
    until: datetime


@dataclass(frozen=True)
class Offer:
    """A kind of device of the fleet and how many there are."""

    resource: str
    expression: str
    count: int


@dataclass(frozen=True)
class Arrival:
    """Work that somebody submits; `hours` is how long a notebook is kept."""

    at: datetime
    tenant: str
    offer: Offer
    behaviour: Behaviour
    number: int
    hours: float


def offers(plan: Fleet, seed: int) -> list[Offer]:
    """One offer per model and shape of device that DRA serves."""
    counts: dict[tuple[str, str], int] = {}
    for node, pool in plan.node_pools():
        if pool.sharing.mode is SharingMode.TIME_SLICING:
            continue
        for gpu in node_gpus(plan, node, pool, seed):
            for device in gpu_devices(gpu):
                profile = device.instance.placement.profile.name if device.instance else ""
                key = (gpu.model.product_name, profile)
                counts[key] = counts.get(key, 0) + 1
    return [_offer(product, profile, count) for (product, profile), count in sorted(counts.items())]


def _offer(product: str, profile: str, count: int) -> Offer:
    attributes = "device.attributes['gpu.nvidia.com']"
    kind = "mig" if profile else "gpu"
    expression = f"device.driver == 'gpu.nvidia.com' && {attributes}.type == '{kind}'"
    expression += f" && {attributes}.productName == '{product}'"
    if profile:
        expression += f" && {attributes}.profile == '{profile}'"
    short = product.removeprefix("NVIDIA ").split(" ")[0].split("-")[0].lower()
    return Offer(f"allotment.dev/{short}-{profile or 'whole'}".replace("+", "."), expression, count)


def arrivals(plan: Plan, listed: list[Offer]) -> Iterator[Arrival]:
    """Submissions in order of time: more by day than at night, hardly any at weekends."""
    start = plan.until - timedelta(days=plan.days)
    found = []
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
            found.append(Arrival(at, tenant, offer, chosen, number, hours))
    yield from sorted(found, key=lambda a: (a.at, a.offer.resource, a.number))


def _choose(draw: float) -> Behaviour:
    total = sum(share for _, share in _BEHAVIOURS)
    for behaviour, share in _BEHAVIOURS:
        draw -= share / total
        if draw < 0:
            return behaviour
    return Behaviour.TRAIN


class _Recorder:
    """Writes every change of the recorded kinds as a line."""

    def __init__(self, cluster: Cluster, out: BinaryIO) -> None:
        self._cluster = cluster
        self._out = out
        self.count = 0
        cluster.store.listen(self)

    def __call__(self, change: Change) -> None:
        if change.resource not in RECORDED:
            return
        meta = {k: v for k, v in change.obj["metadata"].items() if k != "managedFields"}
        line = {
            "time": timestamp(self._cluster.clock.now()),
            "type": change.type,
            "resource": change.resource,
            "object": {**change.obj, "metadata": meta},
        }
        self._out.write(orjson.dumps(line) + b"\n")
        self.count += 1


@dataclass(frozen=True)
class _Sink:
    samples: BinaryIO
    truths: dict[str, Obj]


class _World:
    """The cluster that lives through the days."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.start = plan.until - timedelta(days=plan.days)
        self.cluster = Cluster.in_memory(seed=plan.seed, start=self.start)
        self.manager = Manager(self.cluster)
        lifecycle.install(self.cluster, self.manager)
        controllers.install(self.cluster, self.manager)
        install_plant(self.cluster, self.manager, plan.fleet, plan.seed, heartbeat=_HEARTBEAT_SECONDS)
        self.fleet = load_fleet(plan.fleet)
        self.offers = offers(self.fleet, plan.seed)
        self.client: Client = self.cluster.client("history", "history")
        self.telemetry = Telemetry(self.cluster.system, self.fleet, plan.seed)
        self._kept: list[tuple[datetime, str, str]] = []
        self._prepare()

    def _prepare(self) -> None:
        create = self.client.create
        for offer in self.offers:
            name = offer.resource.partition("/")[2]
            spec = {
                "selectors": [{"cel": {"expression": offer.expression}}],
                "extendedResourceName": offer.resource,
            }
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": spec,
            }
            create("deviceclasses.resource.k8s.io", body)
        create(names.FLAVORS, _kueue("ResourceFlavor", "fleet", {}))
        for tenant in self.plan.tenants:
            labels = {"allotment.dev/managed": "true", "allotment.dev/tenant": tenant}
            create(
                "namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant, "labels": labels}},
            )
            create(names.CLUSTER_QUEUES, _kueue("ClusterQueue", tenant, self._queue(tenant)))
            queue = _kueue("LocalQueue", "gpu", {"clusterQueue": tenant})
            queue["metadata"]["namespace"] = tenant
            create(names.LOCAL_QUEUES, queue, tenant)
        self.manager.drain()

    def _queue(self, tenant: str) -> Obj:
        share = len(self.plan.tenants)
        resources = [{"name": "cpu", "nominalQuota": "4k"}, {"name": "memory", "nominalQuota": "32Ti"}]
        resources += [{"name": o.resource, "nominalQuota": str(-(-o.count // share))} for o in self.offers]
        group = {
            "coveredResources": [r["name"] for r in resources],
            "flavors": [{"name": "fleet", "resources": resources}],
        }
        return {
            "cohortName": "fleet",
            "namespaceSelector": {"matchLabels": {"allotment.dev/tenant": tenant}},
            "resourceGroups": [group],
            "preemption": {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "Never"},
        }

    def submit(self, arrival: Arrival) -> None:
        """Create the arrival's Job or notebook."""
        short = arrival.offer.resource.partition("/")[2].replace(".", "-")
        name = f"{arrival.behaviour.value}-{short}-{arrival.number}"[:50].rstrip("-")
        lasting = arrival.behaviour in (
            Behaviour.NOTEBOOK,
            Behaviour.IDLE_HOARDER,
            Behaviour.KEEPALIVE,
            Behaviour.ZOMBIE,
            Behaviour.INFERENCE,
            Behaviour.SLOW_START,
            Behaviour.CRASH_LOOP,
        )
        body = _stateful(name, arrival) if lasting else _job(name, arrival)
        resource = "statefulsets.apps" if lasting else "jobs.batch"
        try:
            self.client.create(resource, body, arrival.tenant)
        except ApiError as problem:
            # Two arrivals of one number and shape cannot happen; anything else must be seen.
            raise RuntimeError(f"{name}: {problem.message}") from problem
        if lasting:
            self._kept.append((arrival.at + timedelta(hours=arrival.hours), arrival.tenant, name))

    def stop_due(self, now: datetime) -> None:
        """People stop what they no longer keep."""
        due = [k for k in self._kept if k[0] <= now]
        self._kept = [k for k in self._kept if k[0] > now]
        for _, tenant, name in due:
            self.client.delete("statefulsets.apps", name, tenant)

    def sweep(self, now: datetime) -> None:
        """Finished Jobs go after a day, so that a long history stays small."""
        for job in self.client.list("jobs.batch"):
            ended = next(
                (
                    c
                    for c in dig(job, "status", "conditions", default=[])
                    if c["type"] in ("Complete", "Failed")
                ),
                None,
            )
            if ended and ended["lastTransitionTime"] < timestamp(now - timedelta(days=1)):
                meta = job["metadata"]
                self.client.delete("jobs.batch", meta["name"], meta["namespace"], propagation="Background")


def write(plan: Plan, out: Path) -> dict[str, Any]:
    """Write events.jsonl, samples.jsonl, truth.jsonl and manifest.json into `out`; the answer is the
    manifest.
    """
    out.mkdir(parents=True, exist_ok=True)
    world = _World(plan)
    truths: dict[str, Obj] = {}
    with (out / "events.jsonl").open("wb") as events, (out / "samples.jsonl").open("wb") as samples:
        recorder, sink = _Recorder(world.cluster, events), _Sink(samples, truths)
        count = sum(_step(world, now, work, sink) for now, work in _steps(world))
    with (out / "truth.jsonl").open("wb") as file:
        for _, told in sorted(truths.items()):
            file.write(orjson.dumps(told) + b"\n")
    manifest = {
        **{k: v for k, v in asdict(plan).items() if k != "until"},
        "from": timestamp(world.start),
        "until": timestamp(plan.until),
        "events": recorder.count,
        "samples": count,
        "pods": len(truths),
        "sha256": hashlib.sha256((out / "samples.jsonl").read_bytes()).hexdigest(),
    }
    (out / "manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return manifest


def _steps(world: _World) -> Iterator[tuple[datetime, list[Arrival]]]:
    queue = list(arrivals(world.plan, world.offers))
    now = world.start
    while now < world.plan.until:
        now += timedelta(seconds=world.plan.step)
        due = [a for a in queue if a.at <= now]
        queue = queue[len(due) :]
        yield now, due


def _step(world: _World, now: datetime, due: list[Arrival], sink: _Sink) -> int:
    for arrival in due:
        world.manager.advance(max(0.0, (arrival.at - world.cluster.clock.now()).total_seconds()))
        world.submit(arrival)
    world.manager.advance(max(0.0, (now - world.cluster.clock.now()).total_seconds()))
    world.stop_due(now)
    if now.hour == 0 and now.minute == 0:
        world.sweep(now)
    world.manager.drain()
    return sum(_sample(world, node, now, sink) for node, pool in world.fleet.node_pools() if pool.model)


def _sample(world: _World, node: str, now: datetime, sink: _Sink) -> int:
    count = 0
    for board in world.telemetry.boards(node, now):
        for reading in board.readings:
            labels = {**dcgm.device_labels(board, reading), **dcgm.holder_labels(world.fleet, reading)}
            line = {"time": timestamp(now), "labels": labels, "values": dcgm.values(board, reading)}
            sink.samples.write(orjson.dumps(line) + b"\n")
            count += 1
            if reading.holder is not None:
                _tell(sink.truths, reading.holder.pod, reading.holder.told)
    return count


def _tell(truths: dict[str, Obj], pod: Obj, told: behaviours.Truth) -> None:
    meta = pod["metadata"]
    truths.setdefault(
        meta["uid"],
        {
            "uid": meta["uid"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "behaviour": told.behaviour.value,
            "effective": told.effective,
            "parameters": dict(told.values),
        },
    )


def _kueue(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _template(arrival: Arrival, name: str) -> Obj:
    limits = {arrival.offer.resource: "1"}
    requests = {"cpu": "4", "memory": "16Gi"}
    container = {
        "name": "main",
        "image": "pytorch:2.9.0",
        "resources": {"requests": requests, "limits": limits},
    }
    annotations = {behaviours.ANNOTATION: arrival.behaviour.value}
    return {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [container]},
    }


def _job(name: str, arrival: Arrival) -> Obj:
    template = _template(arrival, name)
    template["spec"]["restartPolicy"] = "Never"
    meta = {"name": name, "labels": {names.QUEUE_LABEL: "gpu"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"backoffLimit": 1, "template": template},
    }


def _stateful(name: str, arrival: Arrival) -> Obj:
    spec = {
        "replicas": 1,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(arrival, name),
    }
    meta = {"name": name, "labels": {names.QUEUE_LABEL: "gpu"}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}
