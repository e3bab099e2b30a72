"""Pods that do not start or do not stay: images that cannot be pulled, init containers that fail, devices and
sandboxes that cannot be set up, nodes that refuse or evict.

Pure: a pod, its behaviour and a time in; what a kubelet writes out, in its own words (Kubernetes 1.36:
pkg/kubelet/images/image_manager.go, kuberuntime/kuberuntime_manager.go, cm/dra/manager.go,
eviction/eviction_manager.go and kubelet.go).
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sandbox.api.meta.objects import Obj, copy_of, dig, timestamp
from sandbox.api.meta.quantity import parse
from sandbox.controllers.conditions import set_condition
from sandbox.controllers.containers import pod_status
from sandbox.fleet.behaviours import Behaviour, Truth

RETRY_SECONDS = 15.0
"""How often a kubelet tries again to set a pod up, and warns again."""
REFUSED_AFTER = 0.3
"""Seconds from a pod's binding to its node's refusal."""
_UNHEALTHY = "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
_NO_SANDBOX = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
_UNPREPARED = "context deadline exceeded"


class Warned(NamedTuple):
    """A Warning event about a pod."""

    reason: str
    message: str


class Verdict(NamedTuple):
    """What its node does with a whole pod: the status that follows, and the event."""

    status: Obj
    event: Warned


def pull_error(image: str) -> str:
    """What containerd says of an image that its registry does not have."""
    name, first = image.rpartition("@")[0] or image, image.partition("/")[0]
    has_host = "/" in image and ("." in first or ":" in first or first == "localhost")
    full = name if has_host else f"docker.io/{name if '/' in name else f'library/{name}'}"
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        f'failed to resolve reference "{full}": {full}: not found'
    )


def setup_warning(told: Truth, pod: Obj) -> Warned | None:
    """What a kubelet warns of, again and again, while it cannot set the pod up; None where nothing is wrong:
    devices are prepared for claims alone.
    """
    if any(each.get("imageID") for each in dig(pod, "status", "containerStatuses", default=[])):
        return None
    if told.behaviour is Behaviour.SANDBOX_FAILS:
        return Warned("FailedCreatePodSandBox", f"Failed to create pod sandbox: {_NO_SANDBOX}")
    claim = _claim_of(pod)
    if told.behaviour is not Behaviour.PREPARE_FAILS or not claim:
        return None
    message = (
        "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for "
        f"ResourceClaim {claim}: error preparing devices for claim {pod['metadata']['namespace']}/{claim}: "
        f"{_UNPREPARED}"
    )
    return Warned("FailedPrepareDynamicResources", message)


def verdict(told: Truth, pod: Obj, node: Obj, times: tuple[datetime, datetime]) -> Verdict | float | None:
    """What its node does with the pod now, or the seconds until it does; None: it lets the pod be. `times`
    are when it was bound, and now.
    """
    bound, now = times
    after = _AFTER.get(told.behaviour)
    if after is None:
        return None
    left = told.values.get("evicted_after", after) - (now - bound).total_seconds()
    if left > 0:
        return left
    return _refused(pod, now) if told.behaviour is Behaviour.REFUSED else _evicted(pod, node, now)


_AFTER = {Behaviour.REFUSED: REFUSED_AFTER, Behaviour.EVICTED: 0.0}


def _refused(pod: Obj, now: datetime) -> Verdict:
    message = f"Allocate failed due to {_UNHEALTHY}, which is unexpected"
    known = pod.get("status") or {}
    kept = {key: copy_of(known[key]) for key in ("conditions", "qosClass") if key in known}
    started = known.get("startTime") or timestamp(now)
    status = {
        **kept,
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": f"Pod was rejected: {message}",
        "startTime": started,
    }
    return Verdict(status, Warned("UnexpectedAdmissionError", message))


def _evicted(pod: Obj, node: Obj, now: datetime) -> Verdict:
    listed = [_killed(each, now) for each in dig(pod, "status", "containerStatuses", default=[])]
    message = f"The node was low on resource: memory. Threshold quantity: 100Mi, available: 62Mi. {_use(pod)}"
    status = pod_status(pod, node, listed, now)
    status |= {"phase": "Failed", "reason": "Evicted", "message": message}
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    set_condition(status["conditions"], {**mark, "message": message}, now)
    return Verdict(status, Warned("Evicted", message))


def _killed(known: Obj, now: datetime) -> Obj:
    began = dig(known, "state", "running", "startedAt", default=timestamp(now))
    ended = {"exitCode": 137, "reason": "Error", "startedAt": began, "finishedAt": timestamp(now)}
    if known.get("containerID"):
        ended["containerID"] = known["containerID"]
    return {**known, "ready": False, "started": False, "state": {"terminated": ended}}


def _use(pod: Obj) -> str:
    """That its first container uses twice the memory that it asked for."""
    first = pod["spec"]["containers"][0]
    asked = str(dig(first, "resources", "requests", "memory", default="0"))
    used = int(2 * parse(asked) / 1024) or 1024
    use = f"was using {used}Ki, request is {asked}, has larger consumption of memory"
    return f"Container {first['name']} {use}. "


def _claim_of(pod: Obj) -> str:
    """The claim whose devices are prepared first; "" for a pod without one."""
    status = pod.get("status") or {}
    named = [each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()]
    named.append(dig(status, "extendedResourceClaimStatus", "resourceClaimName"))
    direct = [each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims") or ()]
    return next((str(name) for name in (*named, *direct) if name), "")
