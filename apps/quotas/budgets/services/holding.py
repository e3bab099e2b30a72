"""Holds a tenant's queue by hand, lets it go, and keeps what is stored of a hold equal to its sources.

Records intent only: the reconcile writes the LocalQueue's `stopPolicy`. Nothing here stops what runs.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.reconciling.services import wake
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas import policies
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import TenantQueue
from apps.quotas.specs import HoldReason
from apps.quotas.wake.selectors import audience
from apps.quotas.wake.services.queue_hints import tell_pages
from apps.tenants.models import Tenant


@transaction.atomic
def hold_queue(*, actor: Actor, tenant: Tenant, reason: str, now: datetime) -> TenantQueue:
    """Holds the tenant's queue by hand: nothing new starts, running work continues. The same reason again
    changes nothing.

    Rule: platform engineers and managers of the department, with a reason that the team reads.
    """
    require_holder(actor, tenant)
    if not reason.strip():
        raise Invalid([FieldProblem("/reason", "required", "Say why: the team reads it.")])
    queue = _locked(tenant)
    if queue.manual_hold and f": {reason.strip()}" in queue.manual_hold:
        return queue
    end = "" if reason.strip().endswith((".", "!", "?")) else "."
    queue.manual_hold = f"{actor.username} since {now:%-d %b %H:%M}: {reason.strip()}{end}"
    queue.save(update_fields=["manual_hold"])
    settle([tenant.pk], actor=actor, now=now)
    message = f"{tenant.slug} is held by {queue.manual_hold} New work waits; running work continues."
    _tell(tenant, Kind.QUEUE_HELD, message, now)
    return _locked(tenant)


@transaction.atomic
def release_queue(*, actor: Actor, tenant: Tenant, reason: str, now: datetime) -> TenantQueue:
    """Takes the hold by hand away; another reason (suspension, budget) still holds. Not held changes nothing.

    Rule: as `hold_queue`; the reason may be empty.
    """
    require_holder(actor, tenant)
    queue = _locked(tenant)
    if not queue.manual_hold:
        return queue
    queue.manual_hold = ""
    queue.save(update_fields=["manual_hold"])
    settle([tenant.pk], actor=actor, now=now)
    queue = _locked(tenant)
    words = queue.hold_detail or "Work that waits may start."
    because = f": {reason.strip()}" if reason.strip() else ""
    message = f"{actor.username} released the hold of {tenant.slug}{because}. {words}"
    _tell(tenant, Kind.QUEUE_RELEASED, message, now)
    return queue


def settle(tenants: Iterable[UUID], *, actor: Actor, now: datetime) -> list[TenantQueue]:
    """Brings what is stored of these tenants' holds up to their sources; answers the queues that were held or
    let go by it. A hold that only changes its words makes no new generation.
    """
    rows = TenantQueue.objects.select_for_update(of=("self",)).select_related("tenant__department")
    moved = []
    for queue in rows.filter(tenant__in=list(tenants), deleted_at=None).order_by("pk"):
        held, was = spending.hold_of(queue, now), HoldReason(queue.hold_reason)
        if (was, queue.hold_detail) == (held.reason, held.detail):
            continue
        queue.hold_reason, queue.hold_detail = held.reason, held.detail
        queue.save(update_fields=["hold_reason", "hold_detail"])
        tell_pages(queue.tenant, str(queue.pk))
        if held.is_held == (was is not HoldReason.NONE):
            continue
        moved.append(queue)
        TenantQueue.objects.filter(pk=queue.pk).update(generation=F("generation") + 1)
        wake.hint("queue", str(queue.pk))
        action = "queue.hold" if held.is_held else "queue.release"
        changes = {"hold_reason": [was, held.reason]}
        audit.record(actor, action, queue, now=now, changes=changes, reason=held.detail)
    return moved


def require_holder(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may hold and release this tenant's queue."""
    if not policies.can_decide(actor, tenant):
        raise NotAllowed("Only a platform engineer or a manager of the department holds a tenant's queue.")


def _locked(tenant: Tenant) -> TenantQueue:
    TenantQueue.objects.get_or_create(tenant=tenant, defaults={"cluster": tenant.cluster})
    rows = TenantQueue.objects.select_for_update(of=("self",)).select_related("tenant__department")
    return rows.get(tenant=tenant)


def _tell(tenant: Tenant, kind: Kind, message: str, now: datetime) -> None:
    url = f"/t/{tenant.slug}/quota/"
    notices.tell(audience.members(tenant), kind=kind, message=message, url=url, at=now, tenant=tenant.slug)
