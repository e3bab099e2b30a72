"""What becomes of a tenant as a whole: archived, brought back, deleted after a second approval and a grace.

Records intent only. Deleting takes, in this order: workloads, the namespace, the queue; see `reconcile`.
"""

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField

from apps.accounts.second_person import require_person, require_second_person
from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import Conflict, NotAllowed
from apps.prepared import Prepared
from apps.tenants import policies
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Membership, Tenant
from apps.tenants.specs import TenantPhase
from apps.web.streams import events

_DELETION = ("deletion_asked_at", "deletion_asked_by", "deletion_approved_by", "deletion_due_at")


@transaction.atomic
def archive_tenant(*, actor: Actor, tenant: Tenant, reason: str, now: datetime) -> Tenant:
    """Puts a tenant away: running work is drained, nobody has access to its namespace, nothing new starts.

    Rule: managers of the department and platform engineers. Volumes, members, quota and records stay, so
    that unarchiving restores it. Archiving twice changes nothing.
    """
    tenancy.require_administrator(actor, tenant)
    row = tenancy.locked(tenant)
    _require_not_leaving(row)
    if row.archived_at is not None:
        return row
    row.archived_at = now
    tenancy.touch(row, "archived_at")
    _cut_streams(row)
    audit.record(actor, "tenant.archive", row, now=now, reason=reason)
    return row


@transaction.atomic
def unarchive_tenant(*, actor: Actor, tenant: Tenant, reason: str, now: datetime) -> Tenant:
    """Brings an archived tenant back as it was. Rule: as archiving; twice changes nothing."""
    tenancy.require_administrator(actor, tenant)
    row = tenancy.locked(tenant)
    _require_not_leaving(row)
    if row.archived_at is None:
        return row
    row.archived_at = None
    tenancy.touch(row, "archived_at")
    audit.record(actor, "tenant.unarchive", row, now=now, reason=reason)
    return row


@transaction.atomic
def ask_deletion(*, actor: Actor, tenant: Tenant, reason: str = "", now: datetime) -> Tenant:
    """Asks for a tenant's deletion. Nothing ends yet: a second platform engineer has to approve.

    Rule: managers of the department and platform engineers; asking again changes nothing.
    """
    tenancy.require_administrator(actor, tenant)
    row = tenancy.locked(tenant)
    if row.deleting_at is not None or row.deletion_asked_at is not None:
        return row
    row.deletion_asked_at, row.deletion_asked_by = now, actor.username
    tenancy.touch(row, *_DELETION)
    audit.record(actor, "tenant.ask-deletion", row, now=now, reason=reason)
    return row


@transaction.atomic
def approve_deletion(*, actor: Actor, tenant: Tenant, reason: str = "", now: datetime) -> Tenant:
    """Agrees to a deletion that somebody else asked for; it begins when the grace period is over.

    Rule: a platform engineer, a person, who has nothing to do with the account that asked (`own_request`, see
    `require_second_person`). Approving twice changes nothing.
    """
    require_approver(actor, tenant)
    row = tenancy.locked(tenant)
    if row.deleting_at is not None or row.deletion_due_at is not None:
        return row
    if row.deletion_asked_at is None:
        raise Conflict(f"Nobody asked for the deletion of {row.slug}.", hint="Ask for it first (DELETE).")
    require_second_person(actor, asked_by=row.deletion_asked_by, now=now)
    row.deletion_approved_by = actor.username
    row.deletion_due_at = now + settings.CONFIG.deletion_grace
    tenancy.touch(row, *_DELETION)
    changes = {
        "deletion_asked_by": [row.deletion_asked_by, row.deletion_asked_by],
        "deletion_approved_by": [None, actor.username],
        "deletion_due_at": [None, row.deletion_due_at],
    }
    audit.record(actor, "tenant.approve-deletion", row, now=now, changes=changes, reason=reason)
    return row


@transaction.atomic
def withdraw_deletion(*, actor: Actor, tenant: Tenant, reason: str = "", now: datetime) -> Tenant:
    """Takes a deletion back, as long as it has not begun. Rule: as asking; nothing asked changes nothing."""
    tenancy.require_administrator(actor, tenant)
    row = tenancy.locked(tenant)
    _require_not_leaving(row)
    if row.deletion_asked_at is None:
        return row
    row.deletion_asked_at, row.deletion_due_at = None, None
    row.deletion_asked_by = row.deletion_approved_by = ""
    tenancy.touch(row, *_DELETION)
    audit.record(actor, "tenant.withdraw-deletion", row, now=now, reason=reason)
    return row


def begin_due(*, now: datetime) -> int:
    """Begins every approved deletion whose grace is over; answers how many. What the clock calls."""
    return sum(_begin(tenant, now) for tenant in _DUE(now))


_DUE = Prepared(
    lambda now: Tenant.objects.filter(deletion_due_at__lte=now, deleting_at=None, deleted_at=None),
    DateTimeField(),
)


@transaction.atomic
def _begin(tenant: Tenant, now: datetime) -> bool:
    row = tenancy.locked(tenant)
    if row.deletion_due_at is None or row.deletion_due_at > now or row.deleting_at is not None:
        # Somebody took it back since it was listed.
        return False
    row.deleting_at, row.phase = now, TenantPhase.DELETING
    tenancy.touch(row, "deleting_at", "phase")
    _cut_streams(row)
    audit.record(system_actor("tenant-deletion"), "tenant.delete", row, now=now)
    return True


def require_approver(actor: Actor, tenant: Tenant) -> None:
    """Rule: platform engineers approve deletions, people and not service accounts; raises NotAllowed."""
    if not policies.can_manage_tenant(actor, tenant):
        raise NotAllowed("Only a platform engineer approves the deletion of a tenant.")
    require_person(actor)


def _require_not_leaving(tenant: Tenant) -> None:
    if tenant.deleting_at is not None:
        raise Conflict(f"{tenant.slug} is being deleted.", hint="It cannot be stopped any more.")


def _cut_streams(tenant: Tenant) -> None:
    for user_id in Membership.objects.filter(tenant=tenant).values_list("user", flat=True):
        events.access_changed(user_id)
