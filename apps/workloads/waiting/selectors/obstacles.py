"""What keeps one workload waiting besides quota: a decision, an eviction, its image or its disk; and the
estimates of its start. Reads only.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import CharField, OuterRef, Q, Subquery, UUIDField

from apps.cluster import request_cache
from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.mirror.selectors import inventory
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import SYNCED, find
from apps.cluster.objects.queueing import QueueState
from apps.prepared import Prepared
from apps.quotas.budgets.rules import budget
from apps.quotas.catalogue.selectors import offers as quotas
from apps.quotas.specs import HoldReason
from apps.tenants.models import Tenant
from apps.tenants.specs import OBJECT_QUOTA, QUEUE_NAME, Suspend
from apps.web.shapes.durations import clock
from apps.workloads.models import StartEstimate, Workload
from apps.workloads.selectors import reading
from apps.workloads.selectors.reading import last_place, spec_of
from apps.workloads.specs import Phase
from apps.workloads.status import derivation, scheduling, waits
from apps.workloads.status.containers import has_ended
from apps.workloads.status.last_run import Outcome
from apps.workloads.waiting.rules import kueue_states, warnings
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.situation import Cause, Eviction, Refund, Stop

FRESH = timedelta(minutes=5)
"""For how long an estimate is shown; it is made again several times a minute while there is a queue."""
_FULL = re.compile(rf"exceeded quota: {OBJECT_QUOTA}, .*limited: ([^=,]+)=(\d+)")
"""How the API server says that a namespace holds as many objects of a kind as it may."""
_PASSES = frozenset(
    {
        "ClusterUnavailable", "Unauthorized", "WebhookUnavailable", "Throttled", "Terminating",
        "InternalError",
    }
)  # fmt: skip
"""Why something is not synced though nobody refused it (`cluster.errors`, `cluster.answers`,
`cluster.reconciling`).
"""
FOR_ANOTHER_TRY = timedelta(minutes=1)
"""How long the cluster may refuse before that is the cause: a namespace or policy may be on its way."""
CLOCKS_DIFFER = timedelta(minutes=1)
_RECLAIMED = "InCohort"
_CAUSES = {
    HoldReason.BUDGET: Cause.BUDGET,
    HoldReason.SUSPENDED: Cause.SUSPENDED,
    HoldReason.MANUAL: Cause.TENANT_HELD,
}


def stop_of(row: Workload, now: datetime) -> Stop | None:
    """What holds it: a platform engineer, its tenant's whole queue, or its offer. Nothing of this stops what
    Kueue has let in.
    """
    if row.held_at is not None:
        reason = f": {row.hold_reason}" if row.hold_reason else ""
        words = f"Held by a platform engineer since {clock(row.held_at, now)}{reason.rstrip('.')}."
        frees = "It keeps its place; a platform engineer releases it."
        return Stop(Cause.HELD, f"{words} {frees}", frees)
    return stop_of_tenant(row.tenant) or _closed(row)


def stop_of_kueue(row: Workload, own: MirrorObject | None, now: datetime) -> Stop | None:
    """What Kueue itself says of it besides quota and order; `own` is its Kueue Workload, if it has one.

    RULE: what somebody here has just released is on its way back: Kueue repeats our own word. Of what was not
    handed to it yet it says nothing.
    """
    if row.observed_generation < row.generation:
        return None
    is_ours = own is not None and own.queue_state == QueueState.HELD and bool(own.sent_hash)
    if own and (kueue_states.deactivated_at(own.body) is None and is_ours):
        return None
    if own and kueue_states.starts_again(own.body, row.asked_at, is_ours=is_ours):
        return None
    said = None if own else waits.taken_out(row)
    if said is not None:
        return kueue_states.taken_out(said)
    return kueue_states.stop_of(own.body if own else None, _queues_of(row.tenant), now)


def is_deactivated(row: Workload) -> bool:
    """Whether Kueue, or a hand, took it out of its queue since it was asked for last: starting it again puts
    it back.
    """
    own = own_of(row)
    if own is None:
        return waits.taken_out(row) is not None
    at = kueue_states.out_since(own.body, is_ours=bool(row.held_at or own.sent_hash))
    return at is not None and at > row.asked_at


def own_of(row: Workload) -> MirrorObject | None:
    """The Kueue Workload of a row, whether it waits or has its place."""
    return own_of_each([row]).get(str(row.pk))


def own_of_each(rows: Iterable[Workload]) -> dict[str, MirrorObject]:
    """The same of many, by the workload's id."""
    ids = sorted(str(row.pk) for row in rows if row.observed_generation >= row.generation)
    return {each.owner_id: each for each in _OWN(ids)} if ids else {}


_OWN = Prepared(
    lambda owners: MirrorObject.objects.filter(
        owner_id__in=owners, kind="Workload", gone_at=None, deleting=False
    ).order_by("resource_version"),
    CharField(),
)
_QUEUES = Prepared(
    lambda cluster, name: MirrorObject.objects.filter(
        Q(kind="ClusterQueue", namespace="", name=name)
        | Q(kind="LocalQueue", namespace=name, name=QUEUE_NAME),
        cluster=cluster,
        gone_at=None,
    ).values_list("body", flat=True),
    UUIDField(),
    CharField(),
)


def _queues_of(tenant: Tenant) -> list[Mapping[str, Any]]:
    """Its LocalQueue and the ClusterQueue behind it."""
    name = tenant.object_name
    return request_cache.memo(("queues", tenant.pk), lambda: list(_QUEUES(tenant.cluster_id, name)))


def stop_past(entry: MirrorObject, now: datetime) -> Stop | None:
    """Whether work made outside the portal was also taken out of its queue there."""
    if entry.queue_state != QueueState.HELD or kueue_states.deactivated_at(entry.body):
        return kueue_states.stop_of(entry.body, (), now)
    frees = "Somebody with rights in the cluster must set it to true again."
    return Stop(
        Cause.HELD, f"Held outside the portal: spec.active of its Kueue Workload is false. {frees}", frees
    )


def stop_of_tenant(tenant: Tenant) -> Stop | None:
    """What holds a tenant's whole queue."""
    queue = getattr(tenant, "queue", None)
    reason = HoldReason(queue.hold_reason) if queue else HoldReason.NONE
    if queue and reason in _CAUSES and queue.hold_detail:
        return Stop(_CAUSES[reason], queue.hold_detail, budget.ends_of(queue.hold_detail))
    if tenant.suspend != Suspend.NONE:
        frees = "Ask a platform engineer to resume it."
        return Stop(Cause.SUSPENDED, f"{tenant.slug} admits no new work at present. {frees}", frees)
    return None


def _closed(row: Workload) -> Stop | None:
    """Whether nothing of its offer starts for its tenant."""
    refused = quotas.refusal_of(row.offer, row.tenant)
    if refused and row.next_offer:
        frees = f"Stop it and start it again: it then takes {row.next_offer.name}."
    elif refused:
        frees = "It waits until a platform engineer changes that; or stop it and take another offer."
    elif not row.offer.enabled:
        refused = f"{row.offer.name} is switched off: nothing new starts on it."
        frees = "It waits until a platform engineer offers it again."
    else:
        return None
    return Stop(Cause.CLOSED, f"{refused} {frees}", frees)


def eviction_of(entry: MirrorObject | None) -> Eviction | None:
    """Whether what waits now had devices in this run and lost them to somebody else."""
    evicted = derivation.condition_of(entry.body, "Evicted") if entry else None
    if not entry or not evicted or (evicted["status"], evicted["reason"]) != ("True", "Preempted"):
        return None
    preempted = derivation.condition_of(entry.body, "Preempted") or {}
    is_reclaimed = str(preempted.get("reason", "")).startswith(_RECLAIMED)
    at = moment(evicted.get("lastTransitionTime")) or entry.seen_at
    return Eviction(Cause.RECLAIMED if is_reclaimed else Cause.PREEMPTED, at)


def loss_of(row: Workload, entry: MirrorObject | None) -> Eviction | None:
    """`eviction_of` one of our workloads, with what is refunded of the run that it ended.

    RULE: the ledger's last refund belongs to this loss if that run ended after it, or at most a minute
    before: the ledger allows clocks to differ by that much (`metering.holdings.SEEN_WITHIN`).
    """
    found = eviction_of(entry) or _eviction_before(row, entry)
    if found is None:
        return None
    ended = row.cost_last_refund_end
    is_counted = ended is not None and ended + CLOCKS_DIFFER >= found.at
    refund = Refund(row.cost_last_refund if is_counted else None, settings.CONFIG.currency)
    return replace(found, refund=refund)


def _eviction_before(row: Workload, entry: MirrorObject | None) -> Eviction | None:
    """RULE: a pod's place in the queue goes with the pod; what the mirror keeps of it says why it went."""
    was_evicted = (row.last_run or {}).get("outcome") == Outcome.EVICTED
    return eviction_of(last_place(row)) if entry and was_evicted else None


def trouble_of(row: Workload) -> Stop | None:
    """What keeps its container from starting: an image that cannot be pulled, whatever else its container
    waits for, or what the cluster warns of.
    """
    if not is_admitted(row):
        return None
    ready = _ready(row)
    if ready.get("reason") in derivation.BAD_IMAGE:
        words = f"Its image cannot be pulled: {row.spec.get('image')}. {_sentence(ready['message'])}"
        frees = _MAY_BE_PRIVATE if _ANONYMOUS.search(ready["message"]) else _CORRECT
        return Stop(Cause.IMAGE, f"{words}{frees}", frees)
    if _waits_for(row, ready):
        return _warned(str(ready["reason"]), str(ready["message"]))
    warning = _warning(row)
    return _warned(str(warning.get("reason")), str(warning.get("message", ""))) if warning else None


def _waits_for(row: Workload, ready: Mapping[str, Any]) -> bool:
    """Whether its container says by itself what it waits for: not merely that it starts, nor for a node."""
    unplaced: Mapping[str, Any] = find(row.conditions, scheduling.POD_SCHEDULED) or {}
    plain = ("", "Starting", "Running", unplaced.get("reason"))
    return row.phase == Phase.STARTING and ready.get("reason", "") not in plain


def _warned(reason: str, message: str) -> Stop:
    cause, lead, frees = warnings.remedy(reason)
    return Stop(cause, f"{lead} {_sentence(message)}{frees}", frees)


_ANONYMOUS = re.compile(r"authorization|unauthorized|denied|forbidden", re.IGNORECASE)
"""How containerd says that a registry does not give an image to whom it does not know."""
_MAY_BE_PRIVATE = (
    "Either there is no such image or it is private: then a lead of the team adds the login of its registry "
    "(Members, Registries). It is retried automatically."
)
_CORRECT = "It is retried automatically; if the name is wrong, stop it, correct the image and start it again."


def lack_of(row: Workload, entry: MirrorObject | None) -> Stop | None:
    """What the cluster itself lacks, so that it is not in the queue, or its disk is not made.

    RULE: of the priority classes only its own counts.
    """
    if is_admitted(row):
        is_unplaced = scheduling.is_unschedulable(row.conditions)
        is_stuck = bool(spec_of(row).volumes) and (is_unplaced or _is_about_disks(_warning(row)))
        lack = inventory.lacks(row.cluster, "storage-class") if is_stuck else None
    else:
        lack = None if entry else _lack_of_queue(row.cluster, str(spec_of(row).priority))
    return Stop(Cause.INCOMPLETE, f"{lack.message} {_COMES_BY_ITSELF}", _COMES_BY_ITSELF) if lack else None


def _lack_of_queue(cluster: Cluster, priority: str) -> inventory.Lack | None:
    found = (inventory.lacks(cluster, name) for name in ("kueue", "namespaces"))
    lack = next(filter(None, found), None)
    classes = inventory.lacks(cluster, PRIORITY_CLASSES)
    return lack or (classes if classes and priority in classes.names else None)


def is_complete(cluster: Cluster) -> bool:
    """Whether nothing is missing that would explain why Kueue queues nothing."""
    return not any(inventory.lacks(cluster, name) for name in ("kueue", "namespaces", PRIORITY_CLASSES))


PRIORITY_CLASSES = "priority-classes"
_COMES_BY_ITSELF = "It goes on by itself once that is there."


def is_admitted(row: Workload) -> bool:
    """Whether Kueue let it in and it does not run: it starts, or fits no node."""
    is_unplaced = row.phase == Phase.PENDING and scheduling.is_unschedulable(row.conditions)
    return is_unplaced or row.phase == Phase.STARTING


def newest_of(row: Workload) -> StartEstimate | None:
    """The newest estimate of this wait."""
    found = StartEstimate.objects.filter(workload=row, asked_at=row.asked_at)
    return found.order_by("-made_at").first()


def newest_of_each(rows: Iterable[Workload]) -> dict[UUID, StartEstimate]:
    """`newest_of` for many in one query, by the row's id."""
    return {made.workload_id: made for made in _NEWEST_OF_EACH([row.pk for row in rows])}


def interval_of(made: StartEstimate | None, now: datetime) -> Interval | None:
    """What an estimate says now; None where nothing is known or nobody has looked for a while."""
    if made is None or made.looked_at < now - FRESH or not (made.p10 and made.p50 and made.p90):
        return None
    return Interval(*(max(at, now) for at in (made.p10, made.p50, made.p90)))


_NEWEST_OF_EACH = Prepared(
    lambda ids: StartEstimate.objects.filter(
        pk__in=Workload.objects.filter(pk__in=ids).values(
            newest=Subquery(
                StartEstimate.objects.filter(workload=OuterRef("pk"), asked_at=OuterRef("asked_at"))
                .order_by("-made_at")
                .values("pk")[:1]
            )
        )
    ),
    UUIDField(),
)


def failure_of(row: Workload) -> Stop | None:
    """Why its last pod failed, until the next is in the queue."""
    failed = reading.failure_of(row)
    return warnings.tried_again(failed.cause, failed.reason) if failed else None


def refusal_of(row: Workload, now: datetime) -> Stop | None:
    """The part of it that the cluster keeps refusing, so that it never reached the queue; retried within a
    minute.
    """
    synced = find(row.conditions, SYNCED)
    if synced is None or synced["status"] != "False" or synced["reason"] in _PASSES:
        return None
    if now - (moment(synced.get("since")) or row.asked_at) < FOR_ANOTHER_TRY:
        return None
    full = _FULL.search(str(synced["message"]))
    if full:
        kind, most = full[1].removeprefix("count/").partition(".")[0], full[2]
        words = f"{row.tenant.slug} has as many {kind} as a tenant may have ({most}). "
        return Stop(Cause.REFUSED, f"{words}{_MAKE_ROOM}", _MAKE_ROOM)
    words = f"The cluster refused it. {_sentence(str(synced['message']))}"
    return Stop(Cause.REFUSED, f"{words}{_TRIED_AGAIN}", _TRIED_AGAIN)


_MAKE_ROOM = (
    "Delete workloads or volumes that are no longer needed; then it goes on by itself within a minute."
)
_TRIED_AGAIN = "It is retried automatically; if that does not help, platform engineers can."


def told(synced: Mapping[str, Any]) -> str:
    """Why the cluster does not hold yet what was asked for, without the webhooks' addresses."""
    silent = synced["reason"] == "WebhookUnavailable"
    return derivation.KUEUE_SENTENCE if silent else str(synced["message"])


def _ready(row: Workload) -> Mapping[str, Any]:
    return find(row.conditions, "Ready") or {}


def _warning(row: Workload) -> Mapping[str, Any] | None:
    events = mirror_table.events_for(row.pk)
    if not any(body.get("type") == "Warning" for body in events):
        return None
    seen = mirror_table.observed_for(row.pk).values()
    pods = [each.body for each in seen if each.ref.kind == "Pod" and not each.deleting]
    return warnings.newest(events, [pod for pod in pods if not has_ended(pod)], row.asked_at)


def _is_about_disks(warning: Mapping[str, Any] | None) -> bool:
    return warning is not None and warnings.remedy(str(warning.get("reason"))).cause is Cause.VOLUME


def _sentence(text: str) -> str:
    said = " ".join(text.split())[:300].rstrip(".")
    return f"The cluster says: {said}. " if said else ""
