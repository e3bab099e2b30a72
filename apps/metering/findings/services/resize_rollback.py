"""After a resize: what ran out of memory on its smaller offer takes the former one at its next start."""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from apps.accounts.specs import system_actor
from apps.cluster.models import MirrorObject
from apps.errors import Conflict, NotFound
from apps.metering.detector.memory import AT_CEILING
from apps.metering.models import Allocation, Device, Finding, Sample
from apps.metering.specs import FindingKind
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.prepared import Prepared
from apps.quotas.wake.selectors import audience
from apps.workloads.lifecycle.services import idling
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

LAST = timedelta(minutes=10)
_log = logging.getLogger(__name__)


def step_back_due(*, now: datetime) -> int:
    """Steps every resized workload back that ran out of memory since; answers how many. Level-triggered: what
    was stepped back is no longer resized.
    """
    done = 0
    for row in _RESIZED():
        # Not asked of the database: SQLite would read all that have no next offer, and that is every one.
        why = "" if row.next_offer_id else out_of_memory(row)
        if why:
            done += _step_back(row, why, now)
    return done


def _resized() -> QuerySet[Workload]:
    rows = Workload.objects.filter(deleting_at=None, deleted_at=None)
    return rows.exclude(former_offer=None).select_related("offer", "tenant")


_RESIZED = Prepared(_resized)


def out_of_memory(row: Workload) -> str:
    """Why it is said to have run out of memory, in words; "" when nothing says so.

    RULE: the kernel killed a container of its present run for it; or it failed with a device's memory at the
    ceiling in its last ten minutes; or the detector saw its processes end there again and again.
    """
    pods = MirrorObject.objects.filter(cluster=row.cluster_id, kind="Pod", owner_id=str(row.pk))
    if any(_killed(body, row.asked_at) for body in pods.values_list("body", flat=True)):
        return "a container was killed for its memory"
    if row.phase == Phase.FAILED and _ended_full(row):
        return "it failed with its device memory full"
    tight = Finding.objects.filter(workload=row, kind=FindingKind.UNDERSIZED, closed_at=None)
    return "it is at the limit of its memory" if tight.exclude(confirmed_at=None).exists() else ""


def _killed(body: dict[str, Any], since: datetime) -> bool:
    for container in (body.get("status") or {}).get("containerStatuses") or ():
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated") or {}
            at = ended.get("finishedAt")
            if ended.get("reason") == "OOMKilled" and (not at or datetime.fromisoformat(at) >= since):
                return True
    return False


def _ended_full(row: Workload) -> bool:
    held = Allocation.objects.filter(workload=row, ended_at__gte=row.asked_at).exclude(device_uuid="")
    for each in held:
        devices = Device.objects.filter(cluster=row.cluster_id, uuid=each.device_uuid, gpu_instance=-1)
        devices |= Device.objects.filter(cluster=row.cluster_id, instance_uuid=each.device_uuid)
        last = Sample.objects.filter(
            device_id__in=list(devices.values_list("pk", flat=True)),
            ts__gt=max(each.started_at, (each.ended_at or row.asked_at) - LAST),
            ts__lte=each.ended_at,
            memory_used_mib__isnull=False,
            memory_total_mib__gt=0,
        )
        pairs = last.values_list("memory_used_mib", "memory_total_mib")
        if any(used >= AT_CEILING * total for used, total in pairs if used and total):
            return True
    return False


def _step_back(row: Workload, why: str, now: datetime) -> bool:
    try:
        stepped = idling.step_back(actor=system_actor("right-sizing"), workload=row, reason=why, now=now)
    except (Conflict, NotFound) as error:
        _log.info("%s needs no step back: %s", row.slug, error.detail)
        return False
    former = stepped.next_offer.name if stepped.next_offer else row.offer.name
    words = f"{row.name}: {row.offer.name} was too small, {why}. Its next start takes {former} again."
    people = [row.owner_id, *audience.leads(row.tenant)]
    url = f"/t/{row.tenant.slug}/workloads/{row.pk}/"
    notices.tell(people, kind=Kind.FINDING_FOUND, message=words, url=url, at=now, tenant=row.tenant.slug)
    return True
