"""Keeping the ledger: the regular roll-up, and corrections by people. A correction is a fact of its own."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.models import Cluster
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.metering import dirty, policies, rolling
from apps.metering.ledger_models import RollPosition
from apps.metering.models import Allocation, Correction
from apps.metering.rolling import Rolled
from apps.tenants.models import Tenant
from apps.web import events

SECONDS = 20.0
"""How long one tick rolls one cluster; what is left is the next tick's."""
_CONSOLE, _TENANT, _WORKLOAD = "gpus money who idle", "use money who heat", "use"
"""The parts of pages that show roll-ups."""


def roll_up(*, now: datetime) -> None:
    """Brings every cluster's buckets up to now and tells the open pages."""
    for cluster in Cluster.objects.all():
        done = rolling.roll(cluster, now=now, seconds=SECONDS)
        if done.buckets:
            _tell(done)


def prune_ledger(*, now: datetime) -> None:
    """Drops the fine rows of the days that only hours are kept of."""
    for cluster in Cluster.objects.all():
        rolling.prune(cluster, now=now)


@transaction.atomic
def correct_allocation(
    *,
    actor: Actor,
    allocation: Allocation,
    started_at: datetime,
    ended_at: datetime | None,
    reason: str,
    now: datetime,
) -> Correction:
    """A better word on when an allocation began and ended; the observed interval stays beside it.

    RULE: platform engineers only, with a reason; nothing in the future, and no time that the ledger can no
    longer make anew (errors: NotAllowed, Invalid). `ended_at` None keeps the observed end. The same again
    is another fact that changes nothing. A closed statement stays; the next one carries the difference.
    """
    if not policies.can_correct(actor, allocation.workload.tenant):
        raise NotAllowed("Platform engineers correct the ledger.")
    held = Allocation.objects.select_for_update().get(pk=allocation.pk)
    before = held.interval
    after = (started_at, ended_at or held.ended_at)
    changed = list(_moved(before, after, now))
    problems = [*_wrong(started_at, ended_at, reason, now), *_too_late(held.cluster, changed, now)]
    if problems:
        raise Invalid(problems)
    made = Correction.objects.create(
        allocation=held, started_at=started_at, ended_at=ended_at, reason=reason.strip(),
        made_by=actor.username, made_at=now,
    )  # fmt: skip
    dirty.mark(held.cluster, [(dirty.gpu_of(held), begins, ends) for begins, ends in changed])
    audit.record(
        who=actor, action="allocation.corrected", chain=_chain(held.workload.tenant), at=now,
        target_kind="allocation", target_id=str(held.pk), target_name=held.device, reason=reason.strip(),
        changes={name: [_text(pair[0]), _text(pair[1])]
                 for name, pair in zip(("from", "to"), zip(before, after, strict=True), strict=True)},
    )  # fmt: skip
    return made


def _moved(
    before: tuple[datetime, datetime | None], after: tuple[datetime, datetime | None], now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """The time that belongs to one interval only."""
    for old, new in ((before[0], after[0]), (before[1] or now, after[1] or now)):
        if old != new:
            yield min(old, new), max(old, new)


def _wrong(
    started_at: datetime, ended_at: datetime | None, reason: str, now: datetime
) -> Iterator[FieldProblem]:
    if not reason.strip():
        yield FieldProblem("/reason", "required", "Say why: the record keeps it.")
    if started_at > now:
        yield FieldProblem("/from", "out_of_range", "It cannot begin in the future.")
    if ended_at is not None and ended_at > now:
        yield FieldProblem("/to", "out_of_range", "It cannot end in the future.")
    if ended_at is not None and ended_at < started_at:
        yield FieldProblem("/to", "out_of_range", "It ends before it begins.")


def _too_late(
    cluster: Cluster, changed: list[tuple[datetime, datetime]], now: datetime
) -> Iterator[FieldProblem]:
    """Buckets can be made anew while their samples and 5 minutes are kept."""
    oldest = now - timedelta(days=settings.CONFIG.telemetry_retention_days)
    pruned = RollPosition.objects.filter(cluster=cluster).values_list("pruned_until", flat=True).first()
    oldest = max(oldest, pruned or oldest)
    if any(begins < oldest for begins, _ in changed):
        words = f"The ledger is closed before {oldest:%Y-%m-%d %H:%M} UTC."
        yield FieldProblem("/from", "out_of_range", words)


def _chain(tenant: Tenant) -> str:
    return audit.tenant_chain(tenant.slug)


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _tell(done: Rolled) -> None:
    data = {"type": "ledger.rolled"}
    events.publish(["console"], part=_CONSOLE, data=data)
    slugs = Tenant.objects.filter(pk__in=done.tenants).values_list("slug", flat=True)
    events.publish([f"tenant:{slug}" for slug in slugs], part=_TENANT, data=data)
    events.publish([f"workload:{pk}" for pk in sorted(done.workloads)], part=_WORKLOAD, data=data)
