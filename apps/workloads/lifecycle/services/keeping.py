"""What becomes of the disks that a deleted workload left: it runs again with them, or they go."""

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import NotFound
from apps.tenants.isolation import slugs
from apps.tenants.lifecycle.services import tenancy
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.lifecycle.services import changing
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase


@transaction.atomic
def reattach(*, actor: Actor, workload: Workload, now: datetime) -> Workload:
    """The deleted workload again, with the disks it left; it queues like new work.

    Rule: as resume, judged anew. Its slug gets a number where another workload took it meanwhile.
    """
    row = _locked(actor, workload)
    admission_check.check(row.tenant, replace(reading.spec_of(row), suspend=False), now=now)
    row.deleting_at, row.keep_volumes, row.suspended, row.phase = None, False, False, Phase.PENDING
    row.asked_at, row.extended_seconds = now, 0
    row.started_at = row.ended_at = row.stops_at = None
    changing.follow_hours(row, now)
    audit.record(actor, "workload.restore", row, now=now, changes={"deleted_at": [row.deleted_at, None]})
    writing.note(row, now, "Restored", f"{actor.username} asked for it again, with its disks.")
    return _back(row)


@transaction.atomic
def delete_disks(*, actor: Actor, workload: Workload, now: datetime) -> Workload:
    """Removes what a deleted workload left, for good. Rule: as the deletion itself."""
    row = _locked(actor, workload)
    row.keep_volumes = False
    audit.record(actor, "workload.delete", row, now=now, changes={"keep_volumes": [True, False]})
    writing.note(row, now, "DeleteRequested", f"{actor.username} deleted its disks.")
    return _back(row)


def _locked(actor: Actor, workload: Workload) -> Workload:
    """The row, locked, while it is gone and has left something; raises NotFound."""
    rows = Workload.objects.select_for_update(of=("self",)).filter(
        deleted_at__isnull=False, keep_volumes=True
    )
    row = rows.select_related("cluster", "tenant__department", "tenant__cluster", "owner", "offer__flavor")
    found = row.filter(pk=workload.pk).first()
    if found is None:
        raise NotFound
    writing.require_operate(actor, found)
    tenancy.require_live(found.tenant)
    return found


def _back(row: Workload) -> Workload:
    """Among the workloads once more, so that the reconcile sees to it."""

    def is_taken(slug: str) -> bool:
        return Workload.objects.filter(tenant=row.tenant, slug=slug, deleted_at=None).exists()

    row.slug, row.deleted_at = slugs.slug_for(row.slug, is_taken), None
    row.save(update_fields=["slug", "deleted_at"])
    return writing.changed(row)
