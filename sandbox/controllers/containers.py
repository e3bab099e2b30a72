"""One container's state over time, and the pod status that follows from its containers.

Pure: what is known, the container's run and a time in; status out. Phases, conditions and times as a kubelet
writes them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sandbox.api.meta.objects import Obj, copy_of, dig, parse_time, timestamp
from sandbox.controllers.conditions import find
from sandbox.fleet.behaviours import Life

FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0


@dataclass(frozen=True)
class Run:
    """When a container may start, and what its life will be."""

    bound_at: datetime
    pull_seconds: float
    life: Life
    restarts: int
    killed_at: datetime | None = None


@dataclass
class Container:
    """A container as it is at `now`; `next_change` is when it next changes by itself."""

    name: str
    image: str
    run: Run
    policy: str
    known: Obj
    now: datetime
    next_change: datetime | None = None

    def status(self) -> Obj:
        """The ContainerStatus at `now`; also sets `next_change`."""
        status = {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": self.run.restarts,
            "lastState": self.known.get("lastState") or {},
        }
        begin = self._begin()
        if self.now < begin:
            self.next_change = begin
            return {**status, "state": {"waiting": self._waiting(self.run.restarts)}}
        return self._started(status, begin)

    def _begin(self) -> datetime:
        """When the present run starts: after the pull, or after the back-off following the last end."""
        running = dig(self.known, "state", "running", "startedAt")
        if running:
            return parse_time(running)
        ended = dig(self.known, "lastState", "terminated", "finishedAt")
        if ended:
            return parse_time(ended) + timedelta(seconds=_backoff(self.run.restarts))
        return self.run.bound_at + timedelta(seconds=self.run.pull_seconds)

    def _waiting(self, restarts: int) -> Obj:
        if restarts <= 1:
            return {"reason": "ContainerCreating"}
        message = f"back-off {int(_backoff(restarts))}s restarting failed container={self.name}"
        return {"reason": "CrashLoopBackOff", "message": message}

    def _started(self, status: Obj, begin: datetime) -> Obj:
        life = self.run.life
        status["containerID"] = (
            f"containerd://{_digest(self.name, begin.isoformat(), str(self.run.restarts))}"
        )
        status["imageID"] = f"{self.image.partition(':')[0]}@sha256:{_digest(self.image)}"
        killed = self.run.killed_at
        if killed is not None and begin <= killed <= self.now:
            return self._ended(status, begin, killed, Life(0, 0, 1, "Error", "the device is gone"))
        if life.ends_after is not None:
            end = begin + timedelta(seconds=life.ends_after)
            if self.now >= end:
                return self._ended(status, begin, end, life)
            self.next_change = end
        ready = begin + timedelta(seconds=life.ready_after)
        if self.now < ready:
            self.next_change = ready if self.next_change is None else min(ready, self.next_change)
        status.update(
            ready=self.now >= ready, started=True, state={"running": {"startedAt": timestamp(begin)}}
        )
        return status

    def _ended(self, status: Obj, begin: datetime, end: datetime, life: Life) -> Obj:
        terminated = {
            "exitCode": life.exit_code,
            "reason": life.reason,
            "startedAt": timestamp(begin),
            "finishedAt": timestamp(end),
            "containerID": status["containerID"],
        }
        again = self.policy == "Always" or (self.policy == "OnFailure" and life.exit_code != 0)
        if not again:
            return {**status, "state": {"terminated": terminated}}
        count = self.run.restarts + 1
        self.next_change = end + timedelta(seconds=_backoff(count))
        waiting = {"waiting": self._waiting(count)}
        return {**status, "restartCount": count, "lastState": {"terminated": terminated}, "state": waiting}

    def news(self, status: Obj) -> list[tuple[str, str, str]]:
        """(reason, message, type) of the events a kubelet writes when it arrives at this status."""
        before, state = self.known.get("state") or {}, status["state"]
        if (
            dig(state, "waiting", "reason") == "CrashLoopBackOff"
            and dig(before, "waiting", "reason") != "CrashLoopBackOff"
        ):
            return [("BackOff", f"Back-off restarting failed container {self.name}", "Warning")]
        if "waiting" in state:
            return [] if before else [("Pulling", f'Pulling image "{self.image}"', "Normal")]
        if "running" in before or "terminated" in before:
            return []
        pulled = f'Successfully pulled image "{self.image}" in {self.run.pull_seconds:.2f}s'
        return [
            ("Pulled", pulled, "Normal"),
            ("Created", f"Container created: {self.name}", "Normal"),
            ("Started", f"Container started: {self.name}", "Normal"),
        ]


def _backoff(restarts: int) -> float:
    """10 s, doubling with each restart, at most 5 min; the first restart comes at once."""
    if restarts <= 1:
        return 1.0
    return min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(restarts - 2, 8))


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()


def pod_status(pod: Obj, node: Obj, listed: list[Obj], now: datetime) -> Obj:
    """The whole pod status from its container statuses: phase, conditions, addresses."""
    status: Obj = copy_of(pod.get("status") or {})
    states = [next(iter(s["state"])) for s in listed]
    phase = _phase(listed, states)
    host = next(
        (a["address"] for a in dig(node, "status", "addresses", default=[]) if a["type"] == "InternalIP"), ""
    )
    address = _address(pod["metadata"]["uid"])
    status.update(
        phase=phase,
        containerStatuses=listed,
        hostIP=host,
        hostIPs=[{"ip": host}],
        startTime=status.get("startTime") or timestamp(now),
    )
    if any(state != "waiting" for state in states) or status.get("podIP"):
        status.update(podIP=address, podIPs=[{"ip": address}])
    _conditions(status, listed, now)
    return status


def _phase(listed: list[Obj], states: list[str]) -> str:
    if all(state == "terminated" for state in states):
        bad = any(s["state"]["terminated"]["exitCode"] for s in listed)
        return "Failed" if bad else "Succeeded"
    started = any(state != "waiting" for state in states) or any(s["restartCount"] for s in listed)
    return "Running" if started else "Pending"


def _conditions(status: Obj, listed: list[Obj], now: datetime) -> None:
    conditions, phase = status.setdefault("conditions", []), status["phase"]
    unready = [s["name"] for s in listed if not s["ready"]]
    over = phase in ("Succeeded", "Failed")
    done = {"reason": "PodCompleted"} if phase == "Succeeded" else {"reason": "PodFailed"}
    waiting = {
        "reason": "ContainersNotReady",
        "message": f"containers with unready status: [{' '.join(unready)}]",
    }
    ready = (
        {"status": "False", **done}
        if over
        else {"status": "False", **waiting}
        if unready
        else {"status": "True"}
    )
    sandbox = "False" if over or not status.get("podIP") else "True"
    _set(conditions, {"type": "PodReadyToStartContainers", "status": sandbox}, now)
    _set(conditions, {"type": "Initialized", "status": "True", **(done if phase == "Succeeded" else {})}, now)
    _set(conditions, {"type": "Ready", **ready}, now)
    _set(conditions, {"type": "ContainersReady", **ready}, now)
    _set(conditions, {"type": "PodScheduled", "status": "True"}, now)


def _set(conditions: list[Obj], fresh: Obj, now: datetime) -> None:
    known = find(conditions, fresh["type"])
    moved = known is None or known["status"] != fresh["status"]
    stamp = timestamp(now) if moved or known is None else known["lastTransitionTime"]
    condition = {**fresh, "lastProbeTime": None, "lastTransitionTime": stamp}
    if known is None:
        conditions.append(condition)
    else:
        known.clear()
        known.update(condition)


def _address(uid: str) -> str:
    digest = hashlib.sha256(uid.encode()).digest()
    return f"10.{128 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"
