"""The prediction against the real Kueue: cases side by side on one control plane, each a cohort tree of its
own.

`PREDICT_CASES` is how many (20 in the gate, 200 in `make verify SUITE=predict`), `PREDICT_SEED` the first
seed.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.cluster.gateway.port import Gateway
from apps.quotas.kueue.predict import reading, scheduling
from apps.quotas.kueue.predict.view import Prediction, View
from tests.controlplane.fixtures import as_admin
from tests.controlplane.plane import ControlPlane
from tests.quotas import predict_cases
from tests.quotas.predict_cases import BATCH, Case

pytestmark = pytest.mark.plane
_log = logging.getLogger(__name__)

CASES = int(os.environ.get("PREDICT_CASES", "20"))
SEED = int(os.environ.get("PREDICT_SEED", "200"))
LEAST_RIGHT = 0.95
AT_REST = 6.0
"""Seconds without a change after which Kueue has come to rest: it batches what it looks at again by one."""
OUTCOMES = ("runs", "waits", "preempted")
Body = dict[str, Any]


@pytest.fixture
def admin(control_plane: ControlPlane) -> Gateway:
    return as_admin(control_plane)


@dataclass
class Seen:
    """What was predicted and what Kueue then did, over all cases so far."""

    table: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[tuple[int, str, dict[str, tuple[str, str]]]] = field(default_factory=list)
    workloads: int = 0
    waiting: int = 0
    borrowing: int = 0
    moving: int = 0


@pytest.mark.timeout(3600)
def test_kueue_does_what_was_predicted(
    control_plane: ControlPlane, admin: Gateway, record_property: Callable[[str, object], None]
) -> None:
    cases = [predict_cases.make(SEED + place) for place in range(CASES)]
    seen = Seen()
    _each(admin.apply, predict_cases.flavors())
    for start in range(0, CASES, BATCH):
        _judge(control_plane, admin, cases[start : start + BATCH], seen)
    facts = _facts(cases, seen)
    for name, value in facts.items():
        record_property(name, value)
    assert 0.8 <= facts["demand"] <= 1.2
    assert facts["waiting"] >= 0.30
    assert facts["borrowing"] >= 0.20
    assert facts["flavors"] >= 3
    assert facts["right"] >= LEAST_RIGHT, seen.wrong


def _judge(plane: ControlPlane, admin: Gateway, cases: list[Case], seen: Seen) -> None:
    """One batch: bring it to rest, predict, change the quotas, let Kueue come to rest, compare."""
    try:
        _install(admin, cases)
        before = _at_rest(admin, cases)
        predictions = {case.number: scheduling.predict(_view(case, before), now=_now()) for case in cases}
        _each(admin.apply, [manifest for case in cases for manifest in case.queues(case.after)])
        after = _at_rest(admin, cases)
    finally:
        _remove(plane, cases)
    seen.workloads += len(before)
    seen.waiting += sum(not _holds(body) for body in before)
    seen.borrowing += sum(_borrows(case, before) for case in cases)
    seen.moving += sum(bool(found.starts or found.preempted) for found in predictions.values())
    _compare(cases, predictions, before, after, seen=seen)
    _log.info("cases to %s: %s wrong; %s", cases[-1].number, len(seen.wrong), dict(seen.table))


def _install(admin: Gateway, cases: list[Case]) -> None:
    name = cases[0].namespace
    labels = {"allotment.dev/managed": "true", "allotment.dev/tenant": name}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    _each(admin.apply, [namespace, *(cohort for case in cases for cohort in case.cohorts)])
    _each(admin.apply, [queue for case in cases for queue in case.queues(case.before)])
    _each(admin.apply, [local for case in cases for local in case.local_queues()])
    # Kueue orders by creation, and that has whole seconds: one job of each case per round.
    for place in range(max(len(case.jobs) for case in cases)):
        began = time.monotonic()
        _each(admin.apply, [case.manifest(case.jobs[place]) for case in cases if place < len(case.jobs)])
        time.sleep(max(0.0, 1.1 - (time.monotonic() - began)))


def _each(call: Callable[[Body], object], bodies: Iterable[Body]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, bodies))


def _at_rest(admin: Gateway, cases: list[Case]) -> list[Body]:
    """The cases' Workloads once none of them has changed for a while."""
    jobs = sum(len(case.jobs) for case in cases)
    last: dict[str, str] = {}
    since = until = time.monotonic()
    until += 600
    while time.monotonic() - since < AT_REST or len(last) < jobs:
        assert time.monotonic() < until, f"not at rest within 10 minutes: {len(last)} of {jobs} workloads"
        time.sleep(1)
        every = admin.list("Workload")[0]
        bodies = [body for body in every if body["metadata"]["namespace"] == cases[0].namespace]
        seen = {body["metadata"]["uid"]: body["metadata"]["resourceVersion"] for body in bodies}
        if seen != last or any(_holds(body) and _is_evicted(body) for body in bodies):
            last, since = seen, time.monotonic()
    return bodies


def _view(case: Case, workloads: Iterable[Body]) -> View:
    own = [body for body in workloads if body["spec"]["queueName"] in case.before]
    local = {(case.namespace, queue): queue for queue in case.before}
    return reading.view(case.queues(case.after), case.cohorts, own, local=local)


def _compare(
    cases: list[Case],
    predictions: dict[int, Prediction],
    before: list[Body],
    after: list[Body],
    *,
    seen: Seen,
) -> None:
    evictions = {_key(body): _evictions(body) for body in before}
    happened = {_key(body): _outcome(body, evictions[_key(body)]) for body in after}
    for case in cases:
        prediction = predictions[case.number]
        predicted = {key: _predicted(key, prediction) for key in prediction.holds | prediction.waits}
        seen.table.update((predicted[key], happened[key]) for key in predicted)
        missed = {
            key: (predicted[key], happened[key]) for key in predicted if predicted[key] != happened[key]
        }
        if missed:
            seen.wrong.append((case.number, case.change, missed))


def _facts(cases: list[Case], seen: Seen) -> dict[str, Any]:
    return {
        "cases": len(cases),
        "right": round(1 - len(seen.wrong) / len(cases), 4),
        "demand": round(predict_cases.demand(cases), 3),
        "workloads": seen.workloads,
        "waiting": round(seen.waiting / seen.workloads, 3),
        "borrowing": round(seen.borrowing / len(cases), 3),
        "flavors": len(predict_cases.flavors()),
        "cases in which something starts or is preempted": seen.moving,
        "wrong": seen.wrong[:5],
        **{f"predicted {a}, then {b}": seen.table[a, b] for a in OUTCOMES for b in OUTCOMES},
    }


def _borrows(case: Case, workloads: list[Body]) -> bool:
    """Whether some tenant of the case holds more of an offer than it is guaranteed."""
    used: Counter[tuple[str, str]] = Counter()
    by_name = {job.name: job for job in case.jobs}
    for body in filter(_holds, workloads):
        if job := by_name.get(body["metadata"]["ownerReferences"][0]["name"]):
            used[job.queue, job.offer] += job.count
    return any(amount > case.before[queue][offer].nominal for (queue, offer), amount in used.items())


def _key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _holds(body: Body) -> bool:
    conditions = body.get("status", {}).get("conditions", [])
    return any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in conditions)


def _is_evicted(body: Body) -> bool:
    conditions = body.get("status", {}).get("conditions", [])
    return any(c["type"] == "Evicted" and c["status"] == "True" for c in conditions)


def _evictions(body: Body) -> int:
    stats = body.get("status", {}).get("schedulingStats", {}).get("evictions", [])
    return sum(entry["count"] for entry in stats)


def _outcome(body: Body, evicted_before: int) -> str:
    if _evictions(body) > evicted_before:
        return "preempted"
    return "runs" if _holds(body) else "waits"


def _predicted(key: str, prediction: Prediction) -> str:
    if key in prediction.preempted:
        return "preempted"
    return "runs" if key in prediction.holds else "waits"


def _remove(plane: ControlPlane, cases: list[Case]) -> None:
    """Kueue's finalizers let go one after the other; nobody needs to wait for that."""
    name = cases[0].namespace
    plane.kubectl("delete", "namespace", name, "--wait=false")
    plane.kubectl("delete", "clusterqueues", "-l", f"allotment.dev/tenant={name}", "--wait=false")


def _now() -> datetime:
    return datetime.now(UTC)
