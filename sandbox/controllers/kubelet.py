"""The kubelet of every simulated node: pods pull, start, get ready, end, restart, and go when deleted.

A container's life comes from the pod's behaviour, or for a Job's pod from the annotation
`pod-complete.stage.kwok.x-k8s.io/delay` or `sleep N` in its command, where `exit N` fails. Nothing is
executed. An Indexed Job's pods fail where `sandbox.allotment.dev/failing-indexes` names their index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key
from sandbox.api.meta.objects import Obj, controller_of, copy_of, dig, parse_time
from sandbox.api.storage.clock import Ids
from sandbox.api.storage.store import Change
from sandbox.controllers import podfaults, pods
from sandbox.controllers.containers import (
    CREATING,
    INITIALIZING,
    Container,
    Run,
    has_completed,
    pod_status,
)
from sandbox.controllers.indexed import INDEX, index_of, is_indexes, read_indexes
from sandbox.controllers.podfaults import Verdict, Warned
from sandbox.fleet import behaviours, faults
from sandbox.fleet.behaviours import Behaviour, Life, Truth

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
        self._warned: dict[str, datetime] = {}

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
        told = self._told(pod)
        decided = podfaults.verdict(told, pod, node, (_bound_at(pod), now)) if told else None
        if isinstance(decided, Verdict):
            self._end(pod, decided)
            return None
        if decided is not None and told and told.behaviour is Behaviour.REFUSED:
            return decided
        due = [decided] if decided is not None else []
        warned = podfaults.setup_warning(told, pod) if told else None
        if warned:
            due.append(self._warn(pod, warned, now))
        return self._run_containers(pod, node, told, now, held=CREATING if warned else "", due=due)

    def _run_containers(
        self, pod: Obj, node: Obj, told: Truth | None, now: datetime, *, held: str, due: list[float]
    ) -> float | None:
        """Bring the containers to where they are now; the answer is when the first of them, or what else is
        `due`, next changes.
        """
        first = [] if held else self._init_containers(pod, told, now)
        said = [container.status() for container in first]
        held = held or ("" if all(map(has_completed, said)) else INITIALIZING)
        containers = [
            self._container(pod, item, now, self._run(pod, item, told, held))
            for item in pod["spec"].get("containers") or ()
        ]
        listed = [container.status() for container in containers]
        status = pod_status(pod, node, listed, now, first=said)
        if status != pod.get("status"):
            self._client.update(pods.PODS, {**pod, "status": status}, subresource="status")
            self._announce(pod, [*first, *containers], [*said, *listed], len(first))
        if status["phase"] in ("Succeeded", "Failed"):
            return None
        changes = [c.next_change for c in (*first, *containers) if c.next_change is not None]
        due = [*due, *((change - now).total_seconds() for change in changes)]
        return max(0.05, min(due)) if due else None

    def _told(self, pod: Obj) -> Truth | None:
        """What the pod's own behaviour is; None for one that names none."""
        return behaviours.truth_of(self._ids.seed, pod) if behaviours.has_behaviour(pod) else None

    def _end(self, pod: Obj, decided: Verdict) -> None:
        """Its node refuses or evicts it."""
        self._client.event(pod, *decided.event, type="Warning", component="kubelet")
        self._client.update(pods.PODS, {**pod, "status": decided.status}, subresource="status")

    def _warn(self, pod: Obj, warned: Warned, now: datetime) -> float:
        """Warn once in every while; the answer is when it is due again."""
        uid = pod["metadata"]["uid"]
        self._warned = {key: at for key, at in self._warned.items() if at > now}
        if uid not in self._warned:
            self._client.event(pod, *warned, type="Warning", component="kubelet")
            self._warned[uid] = now + timedelta(seconds=podfaults.RETRY_SECONDS)
        return (self._warned[uid] - now).total_seconds()

    def _init_containers(self, pod: Obj, told: Truth | None, now: datetime) -> list[Container]:
        """Those that run before the others. They are over at once and not told of, unless one fails, or did.

        RULE: the first one fails, the others wait for it.
        """
        known = {s["name"]: s for s in dig(pod, "status", "initContainerStatuses", default=[])}
        is_stuck = told is not None and told.behaviour is Behaviour.INIT_CRASH
        has_started = any(s.get("imageID") for s in dig(pod, "status", "containerStatuses", default=[]))
        if not known and (not is_stuck or has_started):
            return []
        found: list[Container] = []
        fails = Life(0, told["crash_after"], 1, "Error", "") if told and is_stuck else None
        for item in pod["spec"].get("initContainers") or ():
            before = all(map(has_completed, (each.known for each in found)))
            run = self._run(pod, item, None, "" if before else INITIALIZING)
            run = replace(run, life=fails or Life(0, 0.5, 0, "Completed", ""))
            found.append(self._container(pod, item, now, run, is_init=True))
        return found

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

    def _container(self, pod: Obj, spec: Obj, now: datetime, run: Run, *, is_init: bool = False) -> Container:
        policy = pod["spec"].get("restartPolicy", "Always")
        return Container(
            name=spec["name"],
            image=spec["image"],
            run=run,
            policy="OnFailure" if is_init and policy == "Always" else policy,
            known=copy_of(_known(pod, spec)),
            now=now,
        )

    def _run(self, pod: Obj, spec: Obj, told: Truth | None, held: str) -> Run:
        known = _known(pod, spec)
        uid, restarts = pod["metadata"]["uid"], int(known.get("restartCount", 0))
        draw = self._ids.random(uid, spec["name"], "pull")
        present = bool(known.get("imageID")) or self._pulled(pod, spec["image"])
        pull = draw.uniform(0.05, 0.2) if present else draw.uniform(0.6, 2.5)
        killed = dig(pod, "metadata", "annotations", faults.KILLED)
        is_missing = told is not None and told.behaviour is Behaviour.IMAGE_PULL and not known.get("imageID")
        return Run(
            bound_at=_bound_at(pod),
            pull_seconds=pull,
            life=self._life(pod),
            restarts=restarts,
            killed_at=parse_time(killed) if killed else None,
            held=held,
            pull_error=podfaults.pull_error(spec["image"]) if is_missing else "",
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

    def _announce(self, pod: Obj, containers: list[Container], listed: list[Obj], init: int) -> None:
        """The events of each container; the first `init` are init containers."""
        for place, (container, status) in enumerate(zip(containers, listed, strict=True)):
            field = f"spec.{'initContainers' if place < init else 'containers'}{{{container.name}}}"
            for reason, message, kind in container.news(status):
                self._client.event(pod, reason, message, type=kind, component="kubelet", field=field)


def _known(pod: Obj, spec: Obj) -> Obj:
    """What the pod's status says of one of its containers; no two of them have one name."""
    status = pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((each for each in listed if each["name"] == spec["name"]), {})


def _bound_at(pod: Obj) -> datetime:
    """When the scheduler gave the pod its node."""
    conditions = dig(pod, "status", "conditions", default=[])
    bound: Obj = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    return parse_time(bound.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
