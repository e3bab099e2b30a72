"""What keeps one workload besides quota: a decision, an eviction, its image or its disk; and what was
foretold of its start. A selector: reads only.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.cluster import mirror
from apps.cluster.conditions import find
from apps.cluster.models import MirrorObject
from apps.cluster.sighting import moment
from apps.quotas.specs import HoldReason
from apps.tenants.specs import Suspend
from apps.workloads import explain, status
from apps.workloads.eta import Interval
from apps.workloads.models import StartEstimate, Workload
from apps.workloads.situation import Cause, Eviction, Stop
from apps.workloads.specs import Phase

BAD_IMAGE = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
        "ImageInspectError", "RegistryUnavailable",
    }
)  # fmt: skip
"""Reasons of a waiting container (kubelet, pkg/kubelet/images)."""
BAD_VOLUME = frozenset({"FailedMount", "FailedAttachVolume", "ProvisioningFailed", "FailedBinding"})
"""Reasons of Events about a pod or its claim (kubelet and the volume controllers)."""
FRESH = timedelta(minutes=5)
"""For how long an estimate is shown; it is made again several times a minute while there is a queue."""
_RECLAIMED = "InCohort"
_CAUSES = {
    HoldReason.BUDGET: Cause.BUDGET,
    HoldReason.SUSPENDED: Cause.SUSPENDED,
    HoldReason.MANUAL: Cause.TENANT_HELD,
}


def stop_of(row: Workload, now: datetime) -> Stop | None:
    """Who holds it: a platform engineer this workload, or something its tenant's whole queue."""
    if row.held_at is not None:
        reason = f": {row.hold_reason}" if row.hold_reason else ""
        words = f"Held by a platform engineer since {explain.clock(row.held_at, now)}{reason.rstrip('.')}."
        return Stop(Cause.HELD, f"{words} It keeps its place; a platform engineer releases it.")
    queue = getattr(row.tenant, "queue", None)
    reason = HoldReason(queue.hold_reason) if queue else HoldReason.NONE
    if queue and reason in _CAUSES and queue.hold_detail:
        return Stop(_CAUSES[reason], queue.hold_detail)
    if row.tenant.suspend != Suspend.NONE:
        words = f"{row.tenant.slug} admits no new work at present: ask a platform engineer."
        return Stop(Cause.SUSPENDED, words)
    return None


def eviction_of(entry: MirrorObject | None) -> Eviction | None:
    """Whether what waits now had devices in this run and lost them to somebody else."""
    evicted = status.condition_of(entry.body, "Evicted") if entry else None
    if not entry or not evicted or (evicted["status"], evicted["reason"]) != ("True", "Preempted"):
        return None
    preempted = status.condition_of(entry.body, "Preempted") or {}
    is_reclaimed = str(preempted.get("reason", "")).startswith(_RECLAIMED)
    at = moment(evicted.get("lastTransitionTime")) or entry.seen_at
    return Eviction(Cause.RECLAIMED if is_reclaimed else Cause.PREEMPTED, at)


def trouble_of(row: Workload) -> Stop | None:
    """What keeps its container from starting: an image that cannot be pulled, a disk that cannot be had."""
    if row.phase != Phase.STARTING:
        return None
    ready = _ready(row)
    if ready.get("reason") in BAD_IMAGE:
        words = f"Its image cannot be pulled: {row.spec.get('image')}. {_sentence(ready['message'])}"
        return Stop(Cause.IMAGE, f"{words}It is tried again by itself; if the name is wrong, {_CORRECT}")
    warning = _volume_warning(row)
    if warning is None:
        return None
    words = f"Its disk cannot be used. {_sentence(str(warning.get('message', '')))}"
    return Stop(Cause.VOLUME, f"{words}It is tried again by itself; platform engineers can help.")


_CORRECT = "stop it, correct the image and start it again."


def is_unschedulable(row: Workload) -> bool:
    """Whether Kueue let it in and the scheduler finds no place for its pod."""
    ready = _ready(row)
    return row.phase == Phase.STARTING and ready.get("reason") == "Unschedulable"


def estimate_of(row: Workload, now: datetime) -> Interval | None:
    """The newest estimate of this wait; None where nothing is known or nobody has looked for a while."""
    made = StartEstimate.objects.filter(workload=row, asked_at=row.asked_at).order_by("-made_at").first()
    if made is None or made.looked_at < now - FRESH or not (made.p10 and made.p50 and made.p90):
        return None
    return Interval(*(max(at, now) for at in (made.p10, made.p50, made.p90)))


def told(synced: Mapping[str, Any]) -> str:
    """Why the cluster holds not yet what was asked, as people may read it: nothing of webhooks' addresses."""
    silent = synced["reason"] == "WebhookUnavailable"
    return status.KUEUE_SENTENCE if silent else str(synced["message"])


def _ready(row: Workload) -> Mapping[str, Any]:
    return find(row.conditions, "Ready") or {}


def _volume_warning(row: Workload) -> Mapping[str, Any] | None:
    events = [body for body in mirror.events_for(row.pk) if body.get("type") == "Warning"]
    return next((body for body in reversed(events) if body.get("reason") in BAD_VOLUME), None)


def _sentence(text: str) -> str:
    said = " ".join(text.split())[:300].rstrip(".")
    return f"The cluster says: {said}. " if said else ""
