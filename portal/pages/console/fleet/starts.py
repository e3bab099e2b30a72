"""What Kueue let in and does not run: without a node, or starting for too long. Reads only."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from django.db.models import Q

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.objects.conditions import find
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import seldom, workloads_for
from apps.workloads.specs import Phase
from apps.workloads.status.scheduling import UNSCHEDULABLE, is_unschedulable
from apps.workloads.waiting.rules.situation import Explanation
from apps.workloads.waiting.selectors import node_room, waiting
from portal.pages.parts.needs import Need
from portal.pages.team.workloads import workload_detail

MOST = 20
UNPLACED = timedelta(minutes=1)
"""How long something fits no node until a person is asked to look: the scheduler may be about to place it."""
STARTING = timedelta(minutes=15)
"""How long a start may take: a large image is pulled in minutes."""


@request_cache.scope()
def needs(actor: Actor, *, now: datetime) -> list[Need]:
    """The longest ones first, each with its cause."""
    unplaced = Q(phase=Phase.PENDING, queue__reason=UNSCHEDULABLE)
    rows = workloads_for(actor).filter(unplaced | Q(phase=Phase.STARTING), suspended=False, deleting_at=None)
    stuck = list(_stuck(seldom(rows.order_by("asked_at")), now))[:MOST]
    queues = waiting.queues_of({row.cluster_id for row, _ in stuck}) if stuck else None
    why = partial(waiting.explanation_for, actor, now=now, queues=queues)
    return [_need(row, since, why(row)) for row, since in stuck]


def _stuck(rows: list[Workload], now: datetime) -> Iterator[tuple[Workload, datetime]]:
    for row in rows:
        is_unplaced = is_unschedulable(row.conditions)
        since = node_room.since(row) if is_unplaced else _admitted(row)
        if now - since >= (UNPLACED if is_unplaced else STARTING):
            yield row, since


def _admitted(row: Workload) -> datetime:
    known = find(row.conditions, "Admitted")
    return moment(known["since"] if known else None) or row.asked_at


def _need(row: Workload, since: datetime, found: Explanation | None) -> Need:
    ready = find(row.conditions, "Ready")
    why = found.sentences[0] if found else f"Starting: {ready['message'] if ready else 'nothing is known'}"
    # Its own sentence says since when.
    at = None if is_unschedulable(row.conditions) else since
    return Need(f"{row.name} of {row.tenant.slug}", why, "hourglass", "warn", workload_detail.url(row), at)
