"""One container's state over time, and the pod status that follows from its containers.

Pure: what is known, the container's run and a time in; status out. Phases, conditions and times as a kubelet
writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sandbox.api.meta.objects import Obj, copy_of, dig, parse_time, timestamp
from sandbox.controllers.conditions import find
from sandbox.fleet.behaviours import Life

CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
PULL_ERROR, PULL_BACKOFF = "ErrImagePull", "ImagePullBackOff"
"""Why a container waits that starts as it should, and whose image was not pulled."""
FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0


@dataclass(frozen=True)
class Run:
    """When a container may start, and what its life will be.

    `held` is why it waits for something else of its pod; `pull_error` why its image is not there. A container
    that has started knows neither.
    """

    bound_at: datetime
    pull_seconds: float
    life: Life
    restarts: int
    killed_at: datetime | None = None
    held: str = ""
    pull_error: str = ""


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
        if self.run.held:
            return {**status, "state": {"waiting": {"reason": self.run.held}}}
        if self.run.pull_error:
            return {**status, "state": {"waiting": self._unpulled()}}
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

    def _unpulled(self) -> Obj:
        """The image is tried at once, then after pauses; a try's own error stands for a second."""
        tried = self.run.bound_at + timedelta(seconds=self.run.pull_seconds)
        pause = FIRST_BACKOFF
        if self.now < tried:
            self.next_change = tried
            return {"reason": CREATING}
        while self.now >= tried + timedelta(seconds=pause):
            tried, pause = tried + timedelta(seconds=pause), min(LONGEST_BACKOFF, 2 * pause)
        if self.now < tried + timedelta(seconds=1):
            self.next_change = tried + timedelta(seconds=1)
            return {"reason": PULL_ERROR, "message": self.run.pull_error}
        self.next_change = tried + timedelta(seconds=pause)
        message = f'Back-off pulling image "{self.image}": {PULL_ERROR}: {self.run.pull_error}'
        return {"reason": PULL_BACKOFF, "message": message}

    def _waiting(self, restarts: int) -> Obj:
        if restarts <= 1:
            return {"reason": CREATING}
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
        if self.run.held:
            return []
        if self.run.pull_error and dig(before, "waiting", "reason") != dig(state, "waiting", "reason"):
            return self._pull_news(state["waiting"]["reason"], begins=not before)
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

    def _pull_news(self, reason: str, *, begins: bool) -> list[tuple[str, str, str]]:
        pulling = ("Pulling", f'Pulling image "{self.image}"', "Normal")
        if reason == CREATING:
            return [pulling] if begins else []
        if reason == PULL_BACKOFF:
            first = ("BackOff", f'Back-off pulling image "{self.image}"', "Normal")
            return [first, ("Failed", f"Error: {PULL_BACKOFF}", "Warning")]
        failed = ("Failed", f'Failed to pull image "{self.image}": {self.run.pull_error}', "Warning")
        again = dig(self.known, "state", "waiting", "reason") == PULL_BACKOFF
        return [*([pulling] if again else []), failed, ("Failed", f"Error: {PULL_ERROR}", "Warning")]


def _backoff(restarts: int) -> float:
    """10 s, doubling with each restart, at most 5 min; the first restart comes at once."""
    if restarts <= 1:
        return 1.0
    return min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(restarts - 2, 8))


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()


def pod_status(pod: Obj, node: Obj, listed: list[Obj], now: datetime, *, first: Sequence[Obj] = ()) -> Obj:
    """The whole pod status from its container statuses: phase, conditions, addresses. `first` are those of
    its init containers.
    """
    status: Obj = copy_of(pod.get("status") or {})
    if first:
        status["initContainerStatuses"] = list(first)
    states = [next(iter(s["state"])) for s in (*first, *listed)]
    phase = _phase_of_init(first) or _phase(listed, states[len(first) :])
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


def has_completed(status: Obj) -> bool:
    """Whether a container ended well, as an init container must before the next one starts."""
    return bool(dig(status, "state", "terminated", "exitCode", default=1) == 0)


def _phase_of_init(first: Sequence[Obj]) -> str:
    """The phase that init containers alone decide; "" once all of them have completed."""
    if any(dig(each, "state", "terminated", "exitCode", default=0) for each in first):
        return "Failed"
    return "" if all(map(has_completed, first)) else "Pending"


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
    _set(conditions, _initialized(status, done if phase == "Succeeded" else {}), now)
    _set(conditions, {"type": "Ready", **ready}, now)
    _set(conditions, {"type": "ContainersReady", **ready}, now)
    _set(conditions, {"type": "PodScheduled", "status": "True"}, now)


def _initialized(status: Obj, done: Obj) -> Obj:
    left = [s["name"] for s in status.get("initContainerStatuses") or () if not has_completed(s)]
    if not left:
        return {"type": "Initialized", "status": "True", **done}
    message = f"containers with incomplete status: [{' '.join(left)}]"
    return {
        "type": "Initialized",
        "status": "False",
        "reason": "ContainersNotInitialized",
        "message": message,
    }


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
