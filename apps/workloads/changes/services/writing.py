"""What every write of a workload shares: the lock, the audit record, the line of its story, the wake-up.

It must run inside the service's transaction.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db.models import UUIDField

from apps.accounts.specs import Actor
from apps.cluster.reconciling.services import wake
from apps.errors import Conflict, NotAllowed, NotFound
from apps.prepared import Prepared, PreparedInsert
from apps.tenants.models import Tenant
from apps.workloads import policies
from apps.workloads.changes.services import telling
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase

Require = Callable[[Actor, Workload], None]

WRITTEN = (
    "name", "labels", "spec", "offer", "suspended", "idle_by_lead", "keep_volumes", "deleting_at",
    "phase", "asked_at", "started_at", "ended_at", "stops_at", "extended_seconds", "hours_due_at",
    "held_at", "hold_reason", "queue_priority",
    "badges", "idle_stops_at", "idle", "gpu_idle_since", "next_offer", "former_offer", "secret_names",
    "keeps_image", "names_pull_secret",
)  # fmt: skip
"""The columns that services write; the lease and what was observed are the reconcile's alone."""


def require_operate(actor: Actor, workload: Workload) -> None:
    """Raises NotAllowed unless the actor may stop, change and delete this workload."""
    if not policies.can_operate(actor, workload):
        raise NotAllowed(f"Only its owner or a lead of {workload.tenant.slug} may do this.")


def require_stop(actor: Actor, workload: Workload) -> None:
    """Raises NotAllowed unless the actor may stop this workload."""
    if not policies.can_stop(actor, workload):
        team = workload.tenant.slug
        raise NotAllowed(f"Only its owner, a lead of {team} or a manager of its department may do this.")


def require_submit(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may run workloads in this tenant."""
    if not policies.can_submit(actor, tenant):
        raise NotAllowed(f"Only members of {tenant.slug} may run workloads in it.")


def locked(actor: Actor, workload: Workload, *, require: Require = require_operate) -> Workload:
    """The row, locked, if `require` lets the actor; raises NotFound when it went meanwhile."""
    row = _LOCKED.first(workload.pk)
    if row is None:
        raise NotFound
    require(actor, row)
    return row


def locked_generation(pk: UUID) -> int | None:
    """Of a workload that is locked by this, without a look at anything else; None when it is gone."""
    return _GENERATION.first(pk)


_GENERATION = Prepared(
    lambda pk: (
        Workload.objects.filter(pk=pk, deleted_at=None)
        .select_for_update()
        .values_list("generation", flat=True)
    ),
    UUIDField(),
)
_LOCKED = Prepared(
    lambda pk: (
        Workload.objects.filter(deleted_at=None, pk=pk)
        .select_for_update(of=("self",))
        .select_related(
            "cluster", "tenant__department", "tenant__cluster", "owner", "offer__flavor", "next_offer"
        )
    ),
    UUIDField(),
)


def require_alive(row: Workload) -> None:
    """Raises Conflict for what is being deleted or has ended for good."""
    if row.deleting_at is not None:
        raise Conflict("It is being deleted.", hint="Make a new one.")
    if Phase(row.phase).is_final:
        raise Conflict(
            f"It has ended ({Phase(row.phase).label.lower()}).", hint="Duplicate it to run it again."
        )


def said(words: str, reason: str) -> str:
    """A line of the story, with the reason that was given."""
    return f"{words}: {reason}" if reason else f"{words}."


def note(row: Workload, now: datetime, reason: str, message: str) -> None:
    """One line of its story."""
    _NOTE(
        WorkloadEvent(workload=row, at=now, source="allotment", type="Normal", reason=reason, message=message)
    )


_NOTE = PreparedInsert(WorkloadEvent)


def changed(row: Workload) -> Workload:
    """Store what people changed as a new generation, and wake the reconcile."""
    row.generation += 1
    row.save(update_fields=[*WRITTEN, "generation", "updated_at"])
    return woken(row)


def forget_idleness(row: Workload) -> None:
    """What was found of a run ends with it."""
    row.badges, row.idle_stops_at, row.idle, row.gpu_idle_since = [], None, None, None


def woken(row: Workload) -> Workload:
    """After the commit: the reconcile, and all who look at it."""
    wake.hint("workload", row.pk)
    telling.tell(row, parts=telling.EVERYTHING)
    return row
