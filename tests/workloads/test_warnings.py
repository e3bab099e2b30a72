"""Which Warning of the cluster keeps a workload from starting, and what is said of every reason."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.workloads.waiting.rules import warnings
from apps.workloads.waiting.rules.situation import Cause
from tests.workloads import bodies

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
KUBELET = [
    "BackOff", "Evicted", "ExceededGracePeriod", "Failed", "FailedAttachVolume", "FailedBinding",
    "FailedCreate", "FailedCreatePodContainer", "FailedCreatePodSandBox", "FailedKillPod",
    "FailedMapVolume", "FailedMount", "FailedMountOnFilesystemMismatch", "FailedNodeDeclaredFeaturesCheck",
    "FailedPodSandBoxStatus", "FailedPostStartHook", "FailedPrepareDynamicResources",
    "FailedResourceClaimCreation", "FailedSync", "FailedValidation", "FileSystemResizeFailed",
    "HostPortConflict", "InspectFailed", "NetworkNotReady", "NodeNotReady", "OutOfmemory",
    "ProvisioningFailed", "TopologyAffinityError", "UnexpectedAdmissionError", "VolumeMismatch",
    "VolumeResizeFailed", "SomethingNobodyKnows",
]  # fmt: skip
"""Reasons of Warnings that Kubernetes 1.36 writes about a pod, its claim or what makes it, and one that it
does not.
"""


def pod(uid: str = "p1", at: datetime = AT) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "creationTimestamp": at.isoformat()}}


def event(
    reason: str, *, kind: str = "Pod", uid: str = "p1", path: str = "", at: datetime = AT, warns: bool = True
) -> dict[str, Any]:
    about = {"kind": kind, "uid": uid, **({"fieldPath": path} if path else {})}
    return {
        "type": "Warning" if warns else "Normal", "reason": reason, "message": "m", "involvedObject": about,
        "lastTimestamp": at.isoformat(),
    }  # fmt: skip


def newest(*events: dict[str, Any], pods: tuple[dict[str, Any], ...] = (pod(),)) -> str:
    chosen = warnings.newest(events, pods, AT - timedelta(hours=1))
    return str(chosen["reason"]) if chosen else ""


@pytest.mark.parametrize("reason", KUBELET)
def test_every_warning_about_a_starting_pod_is_said_and_has_its_cure(reason: str) -> None:
    assert newest(event(reason)) == reason
    cause, lead, cure = warnings.remedy(reason)
    assert cause in (Cause.VOLUME, Cause.WARNED)
    assert lead.endswith(".")
    is_known = reason in warnings.REMEDIES
    assert is_known or (reason in lead and cure.startswith("What ends that is not known here"))


@pytest.mark.parametrize("reason", sorted(warnings.REMEDIES))
def test_a_known_reason_says_no_name_of_kubernetes_first(reason: str) -> None:
    assert reason not in warnings.remedy(reason).lead


@pytest.mark.parametrize("reason", sorted(warnings.BESIDE))
def test_what_keeps_nothing_from_starting_or_is_said_elsewhere_is_no_warning(reason: str) -> None:
    assert newest(event(reason)) == ""
    assert newest(event("FailedMount"), event(reason)) == "FailedMount"


def test_the_newest_one_stands() -> None:
    assert newest(event("FailedMount"), event("FailedCreatePodSandBox")) == "FailedCreatePodSandBox"


def test_a_warning_about_a_pod_that_is_gone_is_over() -> None:
    assert newest(event("FailedMount", uid="p0")) == ""


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "ResourceClaim", "Job", "StatefulSet"])
def test_of_what_the_pod_needs_only_the_time_since_it_was_made_counts(kind: str) -> None:
    before, since = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
    assert newest(event("FailedCreate", kind=kind, uid="c1", at=before)) == ""
    assert newest(event("FailedCreate", kind=kind, uid="c1", at=since)) == "FailedCreate"
    assert newest(event("FailedCreate", kind=kind, uid="c1", at=before), pods=()) == "FailedCreate"


def test_what_kueue_warns_of_its_own_object_is_not_about_the_pod() -> None:
    assert newest(event("Pending", kind="Workload", uid="k1")) == ""


def test_what_the_pod_has_got_past_is_over() -> None:
    goes_on = event("Pulled", path="spec.containers{main}", warns=False)
    assert newest(event("FailedPrepareDynamicResources"), goes_on) == ""
    assert newest(event("Failed", path="spec.containers{main}"), goes_on) == ""
    assert newest(goes_on, event("FailedMount")) == "FailedMount"
    assert newest(event("Failed", path="spec.containers{side}"), goes_on) == "Failed", "another container"
    other = event("FailedMount", uid="p2")
    assert newest(other, goes_on, pods=(pod(), pod("p2"))) == "FailedMount", "another pod"


def test_an_event_of_the_newer_kind_has_its_time_in_its_series() -> None:
    told = {"eventTime": bodies.AT, "series": {"lastObservedTime": "2026-11-20T09:05:00.123456Z"}}
    at = warnings.time_of(told)
    assert at is not None
    assert (at.minute, at.second) == (5, 0)
    assert warnings.time_of({"metadata": {"creationTimestamp": bodies.AT}}) == AT
