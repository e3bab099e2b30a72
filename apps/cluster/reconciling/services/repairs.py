"""The verb on drift: repair. It is the reconcile's own apply, asked for now and with force."""

from datetime import datetime
from operator import attrgetter

from django.db import transaction

from apps.accounts.policies import require_platform
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Drift
from apps.cluster.reconciling.selectors import drifts
from apps.cluster.reconciling.services import sweep
from apps.errors import Conflict

MOST_AT_ONCE = 200
"""Objects of one repair; asked again it takes the next."""


@transaction.atomic
def repair(*, actor: Actor, drift: Drift, reason: str, now: datetime) -> Drift:
    """Have an object put back, however often that was done of late. Rule: platform engineers; what differs no
    longer is `wrong_phase`.
    """
    require_platform(actor)
    row = Drift.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=drift.pk)
    if row.healed_at is not None:
        raise Conflict(f"{row} is as it should be since {row.healed_at:%H:%M} UTC.")
    (row,) = _repair(actor, [row], reason, now=now)
    return row


@transaction.atomic
def repair_tenant(*, actor: Actor, tenant: str, reason: str, now: datetime) -> list[Drift]:
    """The same for all that differs of a tenant, by its slug; nothing where nothing does."""
    require_platform(actor)
    rows = Drift.objects.select_for_update(of=("self",)).select_related("cluster")
    return _repair(actor, list(drifts.to_repair(rows, tenant)[:MOST_AT_ONCE]), reason, now=now)


def _repair(actor: Actor, rows: list[Drift], reason: str, *, now: datetime) -> list[Drift]:
    """RULE: the mirror, then its owners, each in the watcher's order, or the two wait for each other."""
    for row in sorted(rows, key=attrgetter("ref")):
        # Without its past it may be taken back at once.
        mirror_table.note_forces(row.cluster, row.ref, [])
    sweep.note({(row.owner_kind, row.owner_id) for row in rows})
    for row in rows:
        row.asked_by, row.asked_at = actor.username, now
        row.save(update_fields=["asked_by", "asked_at"])
        paths = [field["path"] for field in row.fields]
        changes = {"how": row.how, "fields": paths, "cluster": row.cluster.slug}
        audit.record(actor, "drift.repair", row, now=now, changes=changes, reason=reason)
    return rows
