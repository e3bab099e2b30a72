"""The objects that a past's work would have been in the API, change by change. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.api.meta.objects import Obj, timestamp
from sandbox.controllers.kueue import names
from sandbox.fleet import behaviours
from sandbox.fleet.past import Arrival, End, Life, Run, Work
from sandbox.fleet.slices import DRIVER

_JOBS, _SETS, _PODS, _CLAIMS = "jobs.batch", "statefulsets.apps", "pods", "resourceclaims.resource.k8s.io"
_IMAGE = "pytorch:2.9.0"
_REQUEST = "container-0-request-0"
_PERSON = "allotment.dev/submitted-by"


@dataclass(frozen=True)
class Event:
    """A change of an object, as a watcher would have seen it."""

    at: datetime
    type: str
    resource: str
    obj: Obj

    def line(self) -> Obj:
        """As a file keeps it."""
        return {
            "time": timestamp(self.at), "type": self.type, "resource": self.resource, "object": self.obj,
        }  # fmt: skip


def events_of(work: Work) -> Iterator[Event]:
    """Everything that was seen of a piece of work, from its submission to its end."""
    arrival, runs = work.arrival, work.runs
    resource = _SETS if arrival.is_lasting else _JOBS
    body = _body(work)
    yield Event(arrival.at, "ADDED", resource, body)
    yield from _queued(work)
    for run in runs:
        yield from _pod_events(work, run)
    if not arrival.is_lasting:
        last = runs[-1]
        kind = "Complete" if last.end is End.COMPLETED else "Failed"
        yield Event(last.ended, "MODIFIED", resource, {**body, "status": _conditions(kind, at=last.ended)})
    elif runs:
        yield Event(runs[-1].ended, "DELETED", resource, body)


def pod_of(work: Work, run: Run) -> Obj:
    """The pod of a run, as it was made."""
    kind = "StatefulSet" if run.arrival.is_lasting else "Job"
    spec = {**_template(run.arrival)["spec"], "nodeName": run.device.gpu.node}
    meta = {
        "name": run.name,
        "namespace": run.arrival.tenant,
        "uid": run.uid,
        "creationTimestamp": timestamp(run.placed),
        "labels": {"app": run.arrival.name},
        "annotations": {behaviours.ANNOTATION: run.arrival.behaviour.value},
        "ownerReferences": [{"kind": kind, "name": run.arrival.name, "uid": work.uid, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def claim_of(run: Run) -> Obj:
    """What gave the run its device."""
    device_class = run.arrival.offer.resource.partition("/")[2]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": run.name, "uid": run.uid, "controller": True}
    meta = {
        "name": f"{run.name}-extended-resources",
        "namespace": run.arrival.tenant,
        "uid": f"{run.uid}-claim",
        "creationTimestamp": timestamp(run.placed),
        "ownerReferences": [owner],
    }
    wanted = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    given = {
        "request": _REQUEST, "driver": DRIVER, "pool": run.device.gpu.node, "device": run.device.name,
    }  # fmt: skip
    held = {"allocationTimestamp": timestamp(run.placed), "devices": {"results": [given]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": [{"name": _REQUEST, "exactly": wanted}]}},
        "status": {
            "allocation": held,
            "reservedFor": [{"resource": "pods", "name": run.name, "uid": run.uid}],
        },
    }


def _pod_events(work: Work, run: Run) -> Iterator[Event]:
    pod, claim = pod_of(work, run), claim_of(run)
    started = {"phase": "Pending", "startTime": timestamp(run.placed)}
    yield Event(run.placed, "ADDED", _CLAIMS, claim)
    yield Event(run.placed, "ADDED", _PODS, {**pod, "status": started})
    for number, life in enumerate(run.lives):
        status = {
            **started,
            "phase": "Running",
            "containerStatuses": [_container(life, number, is_over=False)],
        }
        yield Event(life.begins, "MODIFIED", _PODS, {**pod, "status": status})
    if run.end is End.STOPPED:
        yield Event(run.ended, "DELETED", _PODS, {**pod, "status": status})
    else:
        phase = "Succeeded" if run.end is End.COMPLETED else "Failed"
        last = _container(run.lives[-1], 0, is_over=True)
        over = {**started, "phase": phase, "containerStatuses": [last]}
        yield Event(run.ended, "MODIFIED", _PODS, {**pod, "status": over})
    # The server clears the allocation before it deletes the claim.
    yield Event(run.ended, "MODIFIED", _CLAIMS, {**claim, "status": {}})
    yield Event(run.ended, "DELETED", _CLAIMS, {**claim, "status": {}})


def _container(life: Life, restarts: int, *, is_over: bool) -> Obj:
    state: Obj = {"running": {"startedAt": timestamp(life.begins)}}
    if is_over:
        ended = {
            "exitCode": life.exit_code, "reason": life.reason,
            "startedAt": timestamp(life.begins), "finishedAt": timestamp(life.ends),
        }  # fmt: skip
        state = {"terminated": ended}
    return {"name": "main", "image": _IMAGE, "restartCount": restarts, "ready": not is_over, "state": state}


def _queued(work: Work) -> Iterator[Event]:
    """What Kueue said: pending, then admitted, then finished."""
    arrival, runs = work.arrival, work.runs
    meta = {"name": f"workload-{arrival.name}", "namespace": arrival.tenant, "uid": f"{work.uid}-workload"}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "Workload",
        "metadata": meta,
        "spec": {"queueName": "gpu"},
    }
    waits = _conditions("QuotaReserved", at=arrival.at, status="False", reason="Pending")
    yield Event(arrival.at, "ADDED", names.WORKLOADS, {**body, "status": waits})
    if not runs:
        yield Event(
            arrival.at, "DELETED", names.WORKLOADS, {**body, "status": waits}
        )  # stopped while it waited
        return
    at = runs[0].placed
    admitted = _conditions("QuotaReserved", "Admitted", at=at)
    yield Event(at, "MODIFIED", names.WORKLOADS, {**body, "status": admitted})
    last = runs[-1]
    if last.end is End.STOPPED:
        yield Event(last.ended, "DELETED", names.WORKLOADS, {**body, "status": admitted})
        return
    reason = "Succeeded" if last.end is End.COMPLETED else "Failed"
    finished = _conditions("Finished", at=last.ended, reason=reason)["conditions"]
    done = {"conditions": [*admitted["conditions"], *finished]}
    yield Event(last.ended, "MODIFIED", names.WORKLOADS, {**body, "status": done})


def _conditions(*kinds: str, at: datetime, status: str = "True", reason: str = "") -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, "status": status, "reason": reason or kind, "lastTransitionTime": timestamp(at)}
            for kind in kinds
        ]
    }


def _body(work: Work) -> Obj:
    arrival = work.arrival
    meta = {
        "name": arrival.name,
        "namespace": arrival.tenant,
        "uid": work.uid,
        "creationTimestamp": timestamp(arrival.at),
        "labels": {names.QUEUE_LABEL: "gpu"},
        **({"annotations": {_PERSON: arrival.person}} if arrival.person else {}),
    }
    spec: Obj = {"template": _template(arrival)}
    if arrival.is_lasting:
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {"replicas": 1, **spec},
        }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"backoffLimit": 1, **spec}}


def _template(arrival: Arrival) -> Obj:
    container = {
        "name": "main",
        "image": _IMAGE,
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {arrival.offer.resource: "1"},
        },
    }
    return {
        "metadata": {
            "labels": {"app": arrival.name},
            "annotations": {behaviours.ANNOTATION: arrival.behaviour.value},
        },
        "spec": {"containers": [container]},
    }
