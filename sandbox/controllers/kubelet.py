"""The kubelet of every simulated node: pods pull, start, get ready, end, restart, and go when deleted.

A container's life comes from the pod's behaviour, or for a Job's pod from the annotation
`pod-complete.stage.kwok.x-k8s.io/delay` or `sleep N` in its command, where `exit N` fails. Nothing is
executed. An Indexed Job's pods fail where `sandbox.allotment.dev/failing-indexes` names their index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key
from sandbox.api.meta.objects import Obj, controller_of, copy_of, dig, parse_time
from sandbox.api.storage.clock import Ids
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.containers import Container, Run, pod_status
from sandbox.controllers.indexed import INDEX, index_of, is_indexes, read_indexes
from sandbox.fleet import behaviours, faults
from sandbox.fleet.behaviours import Life

NODES = "nodes"
FAILING_INDEXES = f"{behaviours.PREFIX}failing-indexes"
"""Annotation of an indexed Job's template: which of its pods fail, such as 3,7-9."""
COMPLETE_DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_STOP_SECONDS = 1.0
_SLEEP = re.compile(r"sleep +(\d+)")
_EXIT = re.compile(r"exit +([1-9][0-9]*)")


def duration_seconds(text: str) -> float:
    """A Go duration such as 1m30s in seconds; text that is none reads as 0."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def index_fails(pod: Obj) -> bool:
    """Whether the pod's annotation says that its index fails."""
    told = dig(pod, "metadata", "annotations", default={})
    text = str(told.get(FAILING_INDEXES, ""))
    return is_indexes(text) and INDEX in told and index_of(pod) in read_indexes(text)


def _command(pod: Obj) -> str:
    """The words that the first container would run."""
    first = pod["spec"]["containers"][0]
    return " ".join([*(first.get("command") or ()), *(first.get("args") or ())])


class Kubelet:
    """Runs the pods bound to simulated nodes."""

    name = "kubelet"

    def __init__(self, client: Client, ids: Ids) -> None:
        self._client = client
        self._ids = ids

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Bound pods."""
        return {pods.PODS: lambda change: own_key(change) if change.obj["spec"].get("nodeName") else ()}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Bring the pod's status to what is true now; the answer is when it next changes by itself."""
        pod = self._client.get(pods.PODS, key.name, key.namespace)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        if pods.is_deleting(pod):
            return self._stop(pod, now)
        if pods.is_terminal(pod):
            return None
        node = self._client.get(NODES, pod["spec"]["nodeName"])
        if node is None or dig(node, "metadata", "annotations", faults.LOST):
            return None
        containers = [self._container(pod, item, now) for item in pod["spec"].get("containers") or ()]
        listed = [container.status() for container in containers]
        status = pod_status(pod, node, listed, now)
        if status != pod.get("status"):
            self._client.update(pods.PODS, {**pod, "status": status}, subresource="status")
            self._announce(pod, containers, listed)
        if status["phase"] in ("Succeeded", "Failed"):
            return None
        changes = [c.next_change for c in containers if c.next_change is not None]
        return max(0.05, (min(changes) - now).total_seconds()) if changes else None

    def _stop(self, pod: Obj, now: datetime) -> float | None:
        meta = pod["metadata"]
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        asked = parse_time(meta["deletionTimestamp"]) - timedelta(seconds=grace)
        takes = 0.0 if pods.is_terminal(pod) else min(grace, _STOP_SECONDS)
        left = (asked + timedelta(seconds=takes) - now).total_seconds()
        if left > 0:
            return left
        self._client.delete(pods.PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace=0)
        return None

    def _container(self, pod: Obj, spec: Obj, now: datetime) -> Container:
        known: Obj = next(
            (s for s in dig(pod, "status", "containerStatuses", default=[]) if s["name"] == spec["name"]), {}
        )
        return Container(
            name=spec["name"],
            image=spec["image"],
            run=self._run(pod, spec, known),
            policy=pod["spec"].get("restartPolicy", "Always"),
            known=copy_of(known),
            now=now,
        )

    def _run(self, pod: Obj, spec: Obj, known: Obj) -> Run:
        uid, restarts = pod["metadata"]["uid"], int(known.get("restartCount", 0))
        draw = self._ids.random(uid, spec["name"], "pull")
        present = bool(known.get("imageID")) or self._pulled(pod, spec["image"])
        pull = draw.uniform(0.05, 0.2) if present else draw.uniform(0.6, 2.5)
        bound = next(
            (c for c in dig(pod, "status", "conditions", default=[]) if c["type"] == "PodScheduled"), None
        )
        start = parse_time((bound or {}).get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
        killed = dig(pod, "metadata", "annotations", faults.KILLED)
        return Run(
            bound_at=start,
            pull_seconds=pull,
            life=self._life(pod),
            restarts=restarts,
            killed_at=parse_time(killed) if killed else None,
        )

    def _pulled(self, pod: Obj, image: str) -> bool:
        """An image is on the node once another pod there has started it."""
        for other in self._client.list(pods.PODS, pod["metadata"]["namespace"]):
            if other["spec"].get("nodeName") != pod["spec"]["nodeName"] or other is pod:
                continue
            for status in dig(other, "status", "containerStatuses", default=[]):
                if status["image"] == image and status.get("imageID"):
                    return True
        return False

    def _life(self, pod: Obj) -> Life:
        owner = controller_of(pod)
        job = owner is not None and owner["kind"] == "Job"
        delay = dig(pod, "metadata", "annotations", COMPLETE_DELAY)
        if index_fails(pod):
            ends = duration_seconds(delay) if delay else 1.0
            return Life(0.2, ends, 1, "Error", "ValueError: this item is broken")
        told = behaviours.truth_of(self._ids.seed, pod)
        if behaviours.has_behaviour(pod):
            life = behaviours.life(told, finite=job)
            if job and delay and life.exit_code == 0:
                return Life(life.ready_after, duration_seconds(delay), 0, "Completed", "done")
            return life
        if not job:
            return Life(0.2, None, 0, "Completed", "")
        words = _command(pod)
        asleep = _SLEEP.search(words)
        drawn = self._ids.random(pod["metadata"]["uid"], "complete").uniform(1.0, 5.0)
        ends = duration_seconds(delay) if delay else float(asleep[1]) if asleep else drawn
        failing = _EXIT.search(words)
        return (
            Life(0.2, ends, int(failing[1]), "Error", "")
            if failing
            else Life(0.2, ends, 0, "Completed", "done")
        )

    def _announce(self, pod: Obj, containers: list[Container], listed: list[Obj]) -> None:
        for container, status in zip(containers, listed, strict=True):
            for reason, message, kind in container.news(status):
                self._client.event(pod, reason, message, type=kind, component="kubelet")
