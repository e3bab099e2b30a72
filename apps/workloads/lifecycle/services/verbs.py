"""What people do with workloads: permission, rule, write, audit and wake-up in one transaction each.

Records intent only. Every surface calls these, so every surface refuses alike; the cluster is reached by the
reconcile that each of them wakes.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import CharField, DateTimeField, QuerySet, UUIDField

from apps.accounts.selectors import asker
from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.cluster.objects import names
from apps.errors import AlreadyExists, Conflict, Invalid, NotAllowed, NotFound
from apps.prepared import Prepared, PreparedInsert
from apps.quotas.allowances.selectors import standing
from apps.quotas.specs import Priority
from apps.tenants.isolation import slugs
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant
from apps.transactions import part
from apps.workloads import policies, registry
from apps.workloads.changes.services import writing
from apps.workloads.images.selectors import catalogue
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.lifecycle.selectors.admission_check import Preview
from apps.workloads.lifecycle.services import changing
from apps.workloads.models import Workload
from apps.workloads.secrets.rules import wishes
from apps.workloads.secrets.services import keeping as secrets
from apps.workloads.selectors import reading
from apps.workloads.spec import labels, parsing
from apps.workloads.specs import (
    IdleAction,
    Kind,
    OpenTo,
    Phase,
    WorkloadChange,
    WorkloadRequest,
    WorkloadSpec,
)
from apps.workloads.status.derivation import ON
from apps.workloads.waiting.selectors import obstacles

_log = logging.getLogger(__name__)


def preview_workload(*, actor: Actor, tenant: Tenant, request: WorkloadRequest, now: datetime) -> Preview:
    """What would become of a request: the same checks and refusals as `submit_workload`, nothing stored."""
    writing.require_submit(actor, tenant)
    named = _named(request, tenant)
    ask = admission_check.check(tenant, request.spec, now=now)
    catalogue.require_allowed(tenant, request.spec)
    _require_priority(actor, tenant, request.spec)
    _require_idleness(actor, tenant, request.spec)
    place = reading.place_of(_new_row(actor, named, ask))
    return admission_check.preview(ask, place, now=now)


def preview_of(row: Workload, *, now: datetime) -> Preview:
    """What becomes of a workload as it stands: for the rehearsal of one that was just written."""
    ask = admission_check.check(row.tenant, reading.spec_of(row), now=now)
    return admission_check.preview(ask, reading.place_of(row), now=now)


@part
def submit_workload(
    *,
    actor: Actor,
    tenant: Tenant,
    request: WorkloadRequest,
    now: datetime,
    seen_hourly: Decimal | None = None,
    is_locked: bool = False,
) -> Workload:
    """A new workload. Rule: members; what can never fit is refused, what does not fit now waits. Who names
    the price per hour that they were shown gets the workload at that price, or PriceMoved.

    The tenant's row is locked, so that two requests are judged one after the other; `is_locked`: the caller
    read it with its lock in this transaction.
    """
    writing.require_submit(actor, tenant)
    locked = tenant if is_locked else _LOCKED(tenant.pk)[0]
    tenancy.require_live(locked)
    named = _named(request, locked)
    ask = admission_check.check(locked, named.spec, now=now)
    catalogue.require_allowed(locked, named.spec)
    _require_priority(actor, locked, named.spec)
    _require_idleness(actor, locked, named.spec)
    admission_check.require_price(ask, seen_hourly)
    row = _new_row(actor, named, ask)
    row.asked_at = now
    changing.follow_hours(row, now)
    _NEW(row)
    secrets.keep_new(row, named, actor, now)
    made_from = {"template": [None, f"{row.template} v{row.template_version}"]} if row.template else {}
    audit.record(actor, "workload.create", row, now=now, changes={"spec": [None, row.spec], **made_from})
    writing.note(row, now, "Accepted", f"{actor.username} asked for {ask.spec.devices} {row.offer.name}.")
    return writing.woken(row)


@transaction.atomic
def stop_workload(
    *, actor: Actor, workload: Workload, reason: str, now: datetime, until_asked: bool = False
) -> Workload:
    """Stops it; volumes stay. Stopping what is stopped changes nothing. `until_asked`: its working hours do
    not start it again.

    Rule: its owner, leads, managers of the department and platform engineers; not what has finished. What
    waits gives up its place.
    """
    row = writing.locked(actor, workload, require=writing.require_stop)
    if row.suspended:
        return row
    writing.require_alive(row)
    row.suspended, row.phase = True, Phase.STOPPING
    changing.follow_hours(row, now)
    if until_asked:
        row.hours_due_at = None
    changing.leave_queue(row)
    writing.forget_idleness(row)
    audit.record(actor, "workload.stop", row, now=now, changes={"suspend": [False, True]}, reason=reason)
    writing.note(row, now, "StopRequested", writing.said(f"{actor.username} stopped it", reason))
    return writing.changed(row)


@transaction.atomic
def resume_workload(*, actor: Actor, workload: Workload, reason: str, now: datetime) -> Workload:
    """Asks for a stopped workload to run again; it queues like a new one, with a fresh lease.

    Rule: its owner, leads and platform engineers; its offer and quota are judged anew, and an offer chosen
    for its next start is taken now. If it is still stopping, it starts once that is done. What Kueue,
    or somebody in the cluster, took out of its queue is put back there as it is.
    """
    row = writing.locked(actor, workload)
    writing.require_alive(row)
    if not row.suspended:
        return _put_back(actor, row, reason, now) if obstacles.is_deactivated(row) else row
    ask = admission_check.check(row.tenant, replace(reading.next_spec(row), suspend=False), now=now)
    row.suspended, row.phase, row.asked_at = False, Phase.PENDING, now
    _take_chosen(row, ask, now)
    changing.follow_hours(row, now)
    changing.leave_queue(row)
    writing.forget_idleness(row)
    row.started_at = row.ended_at = row.stops_at = None
    row.extended_seconds = 0
    audit.record(actor, "workload.resume", row, now=now, changes={"suspend": [True, False]}, reason=reason)
    writing.note(row, now, "ResumeRequested", writing.said(f"{actor.username} asked for it again", reason))
    return writing.changed(row)


def _put_back(actor: Actor, row: Workload, reason: str, now: datetime) -> Workload:
    """RULE: the reconcile sets active again what was taken out of its queue before it was asked for."""
    before, row.asked_at = row.asked_at, now
    moved = [before.isoformat(), now.isoformat()]
    audit.record(actor, "workload.resume", row, now=now, changes={"asked_at": moved}, reason=reason)
    writing.note(row, now, "ResumeRequested", writing.said(f"{actor.username} asked for it again", reason))
    return writing.changed(row)


@transaction.atomic
def extend_workload(
    *, actor: Actor, workload: Workload, seconds: int, reason: str, now: datetime
) -> Workload:
    """Lets it run `seconds` longer than its lease and its working hours would.

    Rule: as resume; while it runs, and never beyond the longest run.
    """
    row = writing.locked(actor, workload)
    until = reading.extendable_until(row)
    if row.phase != Phase.RUNNING or row.stops_at is None or until is None:
        raise Conflict("It does not run, or it has no end.", hint="Extend it while it runs.")
    before = min(row.stops_at, row.hours_due_at or row.stops_at)
    later = before + timedelta(seconds=seconds)
    if later > until:
        raise Conflict(
            f"It may run until {until:%Y-%m-%d %H:%M} UTC at most.",
            code="extension_limit",
            hint="Ask for less: at most to extendable_until.",
            extendable_until=until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
    lease, row.stops_at = row.stops_at, max(row.stops_at, later)
    row.extended_seconds += int((row.stops_at - lease).total_seconds())
    row.hours_due_at = row.hours_due_at and max(row.hours_due_at, later)
    audit.record(actor, "workload.extend", row, now=now, changes={"stops_at": [before, later]}, reason=reason)
    writing.note(
        row, now, "Extended", writing.said(f"{actor.username} extended it to {later:%H:%M} UTC", reason)
    )
    return writing.changed(row)


@transaction.atomic
def update_workload(
    *,
    actor: Actor,
    workload: Workload,
    change: WorkloadChange,
    now: datetime,
    seen_hourly: Decimal | None = None,
) -> Workload:
    """Sets the writable fields; nothing changed is no new generation and no event.

    Rule: as resume. Suspension, lease and idle policy may always change, the rest of the spec only while it
    waits or is stopped, or where it may be restarted; kind and the volumes there are never do.
    """
    row = writing.locked(actor, workload)
    if change.seen not in (None, row.generation):
        raise Conflict("Somebody has changed it meanwhile.", hint="Open the page again and look.")
    changes: dict[str, Any] = {}
    if change.spec is not None:
        before = reading.spec_of(row)
        if change.spec.priority != before.priority:
            _require_priority(actor, row.tenant, change.spec)
        if change.spec.idle_policy != before.idle_policy:
            _require_idleness(actor, row.tenant, change.spec)
            row.idle_by_lead = policies.can_set_idleness(actor, row.tenant)
        _require_sharing(actor, row, change.spec)
        wanted = changing.Wanted(change.spec, seen_hourly, restart=change.restart)
        changes |= changing.apply_spec(actor, row, wanted, now=now)
    for field, value in (("name", change.name), ("labels", change.labels)):
        if value is not None and value != getattr(row, field):
            changes[field] = [getattr(row, field), value]
            setattr(row, field, value)
    _check_labels(row.labels, row.tenant)
    if not changes:
        return row
    audit.record(actor, "workload.update", row, now=now, changes=changes)
    return writing.changed(row)


@transaction.atomic
def move_to_offer(
    *, actor: Actor, workload: Workload, offer: str, now: datetime, seen_hourly: Decimal | None = None
) -> Workload:
    """Asks for what waits on another offer instead: name, image, command, disks and labels stay as they are.

    Rule: as resume; only while it waits, judged like new work, at the price that was shown or PriceMoved.
    """
    row = writing.locked(actor, workload)
    if row.phase != Phase.PENDING:
        raise Conflict("It does not wait any more.", hint="Stop it to run it on another offer.")
    chosen, before = standing.allowed_offer(row.tenant, offer, now=now), row.offer
    wanted = changing.Wanted(reading.spec_on(row, chosen), seen_hourly)
    changes = changing.apply_spec(actor, row, wanted, now=now)
    if not changes:
        return row
    audit.record(actor, "workload.update", row, now=now, changes=changes)
    writing.note(row, now, "Moved", f"{actor.username} moved it from {before.name} to {row.offer.name}.")
    return writing.changed(row)


@transaction.atomic
def delete_workload(*, actor: Actor, workload: Workload, keep_volumes: bool, now: datetime) -> Workload:
    """Asks for its removal; asking again changes nothing. Rule: as resume, and also what has finished."""
    row = writing.locked(actor, workload)
    if row.deleting_at is not None:
        return row
    row.deleting_at, row.phase, row.keep_volumes = now, Phase.DELETING, keep_volumes
    row.hours_due_at = None
    secrets.forget(row)
    audit.record(actor, "workload.delete", row, now=now, changes={"keep_volumes": [None, keep_volumes]})
    writing.note(row, now, "DeleteRequested", f"{actor.username} deleted it.")
    return writing.changed(row)


def stop_expired(*, now: datetime) -> int:
    """Stops everything whose lease has run out; answers how many. What ends by itself has Kubernetes' own
    deadline.
    """
    stopped = 0
    for row in _EXPIRED(now):
        try:
            stop_workload(actor=system_actor("lease"), workload=row, reason="its time is over", now=now)
            stopped += 1
        except (Conflict, NotFound) as error:
            # Somebody deleted it, or it ended, since it was listed: then there is nothing to stop.
            _log.info("the lease of %s needs no stop: %s", row.slug, error.detail)
    return stopped


def _expired(now: Any) -> QuerySet[Workload]:
    timed = [kind for kind in Kind if registry.of(kind).is_leased or registry.of(kind).time_is_ours]
    on = Workload.objects.filter(suspended=False, deleting_at=None, phase__in=ON, kind__in=timed)
    return on.filter(stops_at__lte=now).select_related("tenant")


_EXPIRED = Prepared(_expired, DateTimeField())


def _take_chosen(row: Workload, ask: admission_check.Ask, now: datetime) -> None:
    """The offer that was chosen for its next start; what it had is remembered for a step back."""
    if row.next_offer_id is None:
        return
    before, row.former_offer = row.offer, row.offer
    row.offer, row.next_offer = ask.offer, None
    row.spec = parsing.kept(ask.spec)
    writing.note(row, now, "Resized", f"It starts on {ask.offer.name} instead of {before.name}.")


def _require_priority(actor: Actor, tenant: Tenant, spec: WorkloadSpec) -> None:
    if spec.priority is Priority.PROTECTED and not policies.can_protect(actor, tenant):
        words = f"Only a lead of {tenant.slug} or a platform engineer protects work."
        raise NotAllowed(words, hint="Leave priority out, or ask a lead.")


def _require_idleness(actor: Actor, tenant: Tenant, spec: WorkloadSpec) -> None:
    wish = spec.idle_policy
    if wish and wish.action is IdleAction.NONE and not policies.can_set_idleness(actor, tenant):
        words = f"Only a lead of {tenant.slug} or a platform engineer lets work idle."
        raise NotAllowed(words, hint="Take warn or stop, or ask a lead.")


def _require_sharing(actor: Actor, row: Workload, wanted: WorkloadSpec) -> None:
    if wanted.open_to is OpenTo.TEAM and row.open_to != OpenTo.TEAM and not policies.can_share(actor, row):
        raise NotAllowed("Only its owner opens it to the team.", hint="Ask its owner.")


_LOCKED = Prepared(
    lambda pk: (
        Tenant.objects.filter(pk=pk)
        .select_for_update(of=("self",))
        .select_related("department", "cluster", "queue")
    ),
    UUIDField(),
)


def _named(request: WorkloadRequest, tenant: Tenant) -> WorkloadRequest:
    """The request with slug and name; refuses a taken or ill-formed slug, and labels and secrets that may not
    be set.
    """
    _check_labels(request.labels, tenant)
    if wrong := wishes.problems_of_all(request.secrets):
        raise Invalid(wrong)

    def is_taken(slug: str) -> bool:
        return bool(_TAKEN(tenant.pk, slug))

    slug = request.slug or slugs.slug_for(request.name or str(request.spec.kind), is_taken)
    problem = slugs.problem_of(slug)
    if problem:
        raise Invalid([problem])
    if is_taken(slug):
        raise AlreadyExists(f"{tenant.slug} has a workload {slug}.")
    return replace(request, slug=slug, name=request.name or slug)


_NEW = PreparedInsert(Workload)
_TAKEN = Prepared(
    lambda tenant, slug: Workload.objects.filter(tenant=tenant, slug=slug, deleted_at=None).values_list("pk"),
    UUIDField(),
    CharField(),
)


def _check_labels(wanted: Mapping[str, str], tenant: Tenant) -> None:
    problems = labels.problems_of(wanted, is_simulated=tenant.cluster.is_simulated)
    if problems:
        raise Invalid(problems)


def _new_row(actor: Actor, request: WorkloadRequest, ask: admission_check.Ask) -> Workload:
    row_id = uuid4()
    row = Workload(
        id=row_id,
        cluster=ask.tenant.cluster,
        tenant=ask.tenant,
        owner=asker(actor),
        slug=request.slug,
        name=request.name,
        labels=request.labels,
        kind=ask.spec.kind,
        offer=ask.offer,
        spec=parsing.kept(ask.spec),
        suspended=ask.spec.suspend,
        idle_by_lead=ask.spec.idle_policy is not None and policies.can_set_idleness(actor, ask.tenant),
        object_name=names.object_name(request.slug, row_id),
        template=request.template,
        template_version=request.template_version,
    )
    row.keeps_image, row.names_pull_secret = reading.pull_of(row)
    row.secret_names = sorted([wish.name, str(wish.into)] for wish in request.secrets)
    row.run_secrets = row.secret_names
    return row
