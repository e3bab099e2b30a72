"""Which warning of the cluster keeps a workload from starting, and what cures it. Pure.

Sources of the reasons, Kubernetes 1.36: pkg/kubelet/events/event.go, pkg/kubelet/container/sync_result.go,
pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/controller/volume/events/event.go,
pkg/controller/resourceclaim/controller.go and pkg/controller/controller_utils.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from apps.cluster.mirror.rules.mirror_columns import moment
from apps.workloads.status.readiness import FAILED_POD, LEAVING_POD
from apps.workloads.waiting.rules.situation import Cause, Stop

Body = Mapping[str, Any]

BESIDE = frozenset({"FailedScheduling", "Unhealthy", "ProbeWarning", "DNSConfigForming"})
"""Warnings that are told elsewhere or keep nothing from starting: the scheduler's own sentence, the probes of
a container that runs, and a list of name servers that was cut.
"""
_GOES_ON = frozenset(
    {"Pulling", "Pulled", "Created", "Started", "SuccessfulCreate", "ProvisioningSucceeded"}
)  # fmt: skip
"""Normal Events by which a pod, or what makes it, has got past what was warned of before."""


class Remedy(NamedTuple):
    """What a warning keeps, as a sentence, and what ends that."""

    cause: Cause
    lead: str
    cure: str


_DISK = Remedy(
    Cause.VOLUME, "Its disk cannot be used.", "It is retried automatically; platform engineers can help."
)
_DEVICES = Remedy(
    Cause.WARNED,
    "Its devices cannot be handed to its pod.",
    "It is retried automatically; if it does not pass, platform engineers look at its node's DRA driver.",
)
_NETWORK = Remedy(
    Cause.WARNED,
    "Its node cannot set its pod up.",
    "It is retried automatically; if it does not pass, platform engineers look at its node's network plug-in "
    "and container runtime.",
)
_MAKING = Remedy(
    Cause.WARNED,
    "Its pod cannot be made.",
    "It is retried automatically; if the words name a quota or a policy, platform engineers can change it.",
)
_PROGRAM = Remedy(
    Cause.WARNED, "Its program ends again and again.", "Its log says why; correct it and start it again."
)
_SETTINGS = Remedy(
    Cause.WARNED,
    "Its container lacks something that it names.",
    "It goes on by itself once that is there; or stop it, correct it and start it again.",
)
_COMMAND = Remedy(
    Cause.WARNED,
    "Its command cannot be started.",
    "Stop it, correct the command or the image, start it again.",
)
_NODE = Remedy(
    Cause.WARNED,
    "Its node refuses its pod.",
    "It is tried again automatically; if it does not pass, platform engineers look at its node.",
)
_EVICTED = Remedy(
    Cause.WARNED,
    "Its node ended its pod for want of memory or disk.",
    "It is tried again by itself as often as was asked; if it used more than it asked for, ask for more.",
)
_FAILED = Remedy(
    Cause.WARNED,
    "Its pod has failed.",
    "It is tried again by itself as often as was asked; its log says why.",
)
_LEAVING = Remedy(
    Cause.WARNED,
    "Its pod is being removed, and no other is there yet.",
    "It goes on by itself; where its node does not answer, platform engineers bring it back or remove it.",
)
REMEDIES: Mapping[str, Remedy] = {
    "FailedMount": _DISK, "FailedAttachVolume": _DISK, "FailedMapVolume": _DISK, "FailedBinding": _DISK,
    "FailedMountOnFilesystemMismatch": _DISK, "ProvisioningFailed": _DISK, "VolumeMismatch": _DISK,
    "FileSystemResizeFailed": _DISK, "VolumeResizeFailed": _DISK,
    "FailedPrepareDynamicResources": _DEVICES, "FailedResourceClaimCreation": _DEVICES,
    "FailedCreatePodSandBox": _NETWORK, "FailedPodSandBoxStatus": _NETWORK, "NetworkNotReady": _NETWORK,
    "CreatePodSandboxError": _NETWORK, "ConfigPodSandboxError": _NETWORK,
    "FailedCreatePodContainer": _NETWORK,
    "FailedCreate": _MAKING, "FailedValidation": _MAKING,
    "BackOff": _PROGRAM, "CrashLoopBackOff": _PROGRAM, "FailedPostStartHook": _PROGRAM,
    "CreateContainerConfigError": _SETTINGS,
    "CreateContainerError": _COMMAND, "RunContainerError": _COMMAND,
    "UnexpectedAdmissionError": _NODE, "NodeNotReady": _NODE, "Evicted": _EVICTED,
    FAILED_POD: _FAILED, LEAVING_POD: _LEAVING,
    "FailedNodeDeclaredFeaturesCheck": _NODE,
}  # fmt: skip
"""Reason of an Event, of a waiting container or of a pod, or one of `status.readiness`: what is known."""


def remedy(reason: str) -> Remedy:
    """What is known of a reason; of every other one, that nothing is."""
    unknown = Remedy(
        Cause.WARNED,
        f"The cluster warns of it ({reason}).",
        "What ends that is not known here; if it does not pass by itself, platform engineers can help.",
    )
    return REMEDIES.get(reason, unknown)


_TRIED_AGAIN = {"Evicted": "if it used more memory or disk than it asked for, ask for more"}
_BY_NODE = "if it does not pass, platform engineers look at its node"


def tried_again(cause: str, reason: str) -> Stop:
    """What failed, as a sentence, and is tried again after a pause that grows to a minute."""
    frees = f"It is tried again; {_TRIED_AGAIN.get(reason, _BY_NODE)}."
    return Stop(Cause.WARNED, f"{cause} {frees}", frees)


def newest(events: Sequence[Body], pods: Iterable[Body], asked_at: datetime) -> Body | None:
    """The Warning that keeps it; `events` oldest first, `pods` those that have not ended.

    RULE: of a pod only while it is the present one; of what the pod needs only since the first of them was
    made; none that its container, or of the whole pod any container, has got past.
    """
    present = {
        str(pod["metadata"].get("uid")): moment(pod["metadata"].get("creationTimestamp")) for pod in pods
    }
    since = min(filter(None, present.values()), default=asked_at)
    past: set[tuple[str, str]] = set()
    for event in reversed(events):
        about = event.get("involvedObject") or {}
        uid, part = str(about.get("uid", "")), str(about.get("fieldPath", ""))
        if event.get("type") != "Warning":
            past |= {(uid, part), (uid, "")} if event.get("reason") in _GOES_ON else set()
        elif (uid, part) not in past and _keeps(event, about, present, since):
            return event
    return None


def _keeps(event: Body, about: Body, present: Mapping[str, Any], since: datetime) -> bool:
    if event.get("reason") in BESIDE or about.get("kind") == "Workload":  # Kueue says its part elsewhere
        return False
    if about.get("kind") == "Pod":
        return about.get("uid") in present
    at = time_of(event)
    return at is None or at >= since


def time_of(event: Body) -> datetime | None:
    """When an Event was seen last."""
    series = event.get("series") or {}
    made = event.get("metadata", {}).get("creationTimestamp")
    return moment(
        series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or made
    )
