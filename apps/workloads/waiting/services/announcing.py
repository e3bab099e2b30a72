"""Tells people why their work waits, if they can act on it or have lost something: one message per wait and
cause, in the words of `explain`. The clock calls it; there is no actor.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet, UUIDField

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.mirror.rules.mirror_columns import moment
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.prepared import Prepared
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause, Eviction, Explanation
from apps.workloads.waiting.selectors import node_room, obstacles, waiting

LOST = frozenset({Cause.RECLAIMED, Cause.PREEMPTED})
MAY_PASS = frozenset(
    {Cause.FITS_NO_NODE, Cause.CHECKED, Cause.SENT_BACK, Cause.NOT_TAKEN_IN, Cause.WARNED}
)  # fmt: skip
TOLD = LOST | MAY_PASS | {
    Cause.HELD, Cause.CLOSED, Cause.IMAGE, Cause.VOLUME, Cause.TOO_LARGE, Cause.REFUSED, Cause.DEACTIVATED,
}  # fmt: skip
"""A held queue has messages of its own; causes that pass by themselves only show on the page."""
RUN_SECONDS = 30
"""How often the clock asks."""
MOST_ROWS = 100
"""Of those that changed last, and of all others in turn: so a run has an end."""
FOR_A_WHILE = timedelta(minutes=5)
"""How long what may pass by itself stands until its owner is told: most finds a node as others end, and most
checks pass.
"""
FOR_THE_SUM = timedelta(minutes=2)
"""How long the message of a lost run waits for the sum that is refunded: it is counted once its pods have
ended, which takes their notice and a few seconds.
"""


def tell_waits(*, now: datetime) -> int:
    """Look at what waits or cannot start; answers how many messages were sent."""
    rows = list(_chosen(now))
    with request_cache.scope():  # each row asks where the same fleet has room
        queues = waiting.queues_of({row.cluster_id for row in rows}, rows)
        return sum(_tell(row, queues, now) for row in rows)


def message(row: Workload, found: Explanation) -> str:
    """The page's sentences with the workload's name."""
    return " ".join((f"{row.name}:", found.headline, *found.sentences))


def _chosen(now: datetime) -> Iterable[Workload]:
    latest = _LATEST()
    if len(latest) < MOST_ROWS:
        return _CHOSEN(latest)  # there are no others
    others = _alive().exclude(pk__in=latest).order_by("pk").values_list("pk", flat=True)
    begin = int(now.timestamp()) // RUN_SECONDS * MOST_ROWS % max(1, others.count())
    return _CHOSEN([*latest, *others[begin : begin + MOST_ROWS]])


def _alive() -> QuerySet[Workload]:
    return Workload.objects.filter(
        phase__in=[Phase.PENDING, Phase.STARTING], deleted_at=None, deleting_at=None, suspended=False
    )


_RELATED = ("owner", "cluster", "tenant__department", "tenant__queue", "offer__flavor", "next_offer")
_LATEST = Prepared(lambda: _alive().order_by("-updated_at").values_list("pk", flat=True)[:MOST_ROWS])
_CHOSEN = Prepared(lambda pks: Workload.objects.filter(pk__in=pks).select_related(*_RELATED), UUIDField())


def _tell(row: Workload, queues: waiting.Queues, now: datetime) -> bool:
    owner = Actor(row.owner.username, user_id=row.owner_id, platform_role=row.owner.platform_role)
    found = waiting.explanation_for(owner, row, now, queues)
    if found is None or found.cause not in TOLD:
        return False
    if found.cause in MAY_PASS and now - _stands_since(row, found.cause) < FOR_A_WHILE:
        return False
    loss = obstacles.loss_of(row, queues.entry(row)) if found.cause in LOST else None
    is_uncounted = bool(loss and loss.refund and loss.refund.amount is None)
    if loss and is_uncounted and now - loss.at < FOR_THE_SUM:
        return False
    # A message that went without the sum is sent again with it.
    without = " uncounted" if is_uncounted else ""
    key = f"{found.cause} {_since(row, found.cause, loss):%Y-%m-%dT%H:%M:%S}{without}"
    with transaction.atomic():
        fresh = Workload.objects.filter(pk=row.pk).exclude(told_cause=key).update(told_cause=key)
        if fresh:
            url = f"/t/{row.tenant.slug}/workloads/{row.pk}/"
            notices.tell(
                [row.owner_id], kind=Kind.WORKLOAD_WAITS, message=message(row, found), url=url, at=now,
                tenant=row.tenant.slug,
            )  # fmt: skip
    return bool(fresh)


def _stands_since(row: Workload, cause: Cause) -> datetime:
    """Since when nothing of its state has changed."""
    if cause is Cause.FITS_NO_NODE:
        return node_room.since(row)
    changes = (moment(each.get("since")) for each in row.conditions if each["type"] in _OF_ITS_STATE)
    return max(filter(None, changes), default=row.asked_at)


_OF_ITS_STATE = ("QuotaReserved", "Admitted", "Ready")


def _since(row: Workload, cause: Cause, loss: Eviction | None) -> datetime:
    """The moment that tells one such event from the next."""
    if cause is Cause.HELD:
        return row.held_at or row.asked_at
    if cause is Cause.FITS_NO_NODE:
        return node_room.since(row)
    return loss.at if loss else row.asked_at
