"""What the console's queue board shows, and the page that asks before the order is changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.models import MirrorObject
from apps.cluster.objects.queueing import QueueState
from apps.errors import NotFound
from apps.quotas.kueue import observation
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenants_for
from apps.workloads import policies
from apps.workloads.models import Workload
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase
from apps.workloads.status.scheduling import UNSCHEDULABLE
from apps.workloads.waiting.rules import explain
from apps.workloads.waiting.rules.situation import Explanation
from apps.workloads.waiting.selectors import obstacles, places, waiting
from apps.workloads.waiting.services import predicting
from portal.pages.team.workloads import workload_detail

PARTS = frozenset({"rows"})
TOPICS = ["console"]
PAGE = 50
UNANSWERED = "Its queue has not answered yet."
NO_GPU = "It asks for no GPU of an offer: it waits for CPU or memory."
_UNPLACED = Q(queue__reason=UNSCHEDULABLE)

Offers = Mapping[tuple[UUID, str], Offer]
"""By cluster and resource name."""


@dataclass(frozen=True)
class Line:
    """One that waits. `row` is None for work that was made outside the portal (kubectl); that has no `why`
    where it asks for no offer's devices.
    """

    row: Workload | None
    tenant: str
    name: str
    offer: str
    count: int
    place: places.Place | None
    since: datetime
    why: Explanation | None
    starts: str
    choices: tuple[Arrangement, ...]
    is_held: bool = False
    is_admitted: bool = False

    @property
    def standing(self) -> str:
        """Its place in the queue."""
        if self.is_held:
            return "held"
        if self.is_admitted:
            return "admitted"
        return f"{self.place.position} of {self.place.of}" if self.place else "-"

    @property
    def url(self) -> str:
        """Its page, where it has one."""
        return reverse("workload", args=[self.tenant, self.row.pk]) if self.row else ""

    @property
    def made(self) -> str:
        """Whose it is and how it was made."""
        if self.row is None:
            return f"{self.tenant}, made with kubectl"
        return f"{self.tenant}, {self.row.get_kind_display().lower()} by {self.row.owner.shown_name}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it waits."""
        if self.why and self.why.sentences:
            return tuple(self.why.sentences)
        return (UNANSWERED if self.row else NO_GPU,)


@request_cache.scope()
def page(actor: Actor, *, after: str, now: datetime) -> dict[str, Any]:
    """All that waits, next ones first, fifty at a time; `after` is the rank that the last page ended with."""
    _only_console(actor)
    related = ("department", "cluster", "queue")
    tenants = {(t.cluster_id, t.object_name): t for t in tenants_for(actor).select_related(*related)}
    clusters = {cluster for cluster, _ in tenants}
    entries = places.waiting_in(clusters, [name for _, name in tenants])
    found = list(entries.filter(queue_rank__gt=after)[: PAGE + 1])
    board = _Board(actor, tenants, now)
    shown = board.lines(found[:PAGE], first=not after)
    oldest = entries.order_by("created_at").values_list("created_at", flat=True).first()
    inside, judged = predicting.coverage()
    return {
        "rows": shown,
        "count": entries.count() + board.unplaced(),
        "untold": board.untold() if not after else 0,
        "longest": min(filter(None, (oldest, *(line.since for line in shown))), default=None),
        "more": f"?{urlencode({'after': found[PAGE - 1].queue_rank})}" if len(found) > PAGE else "",
        "inside": inside,
        "judged": judged,
        "live_topics": TOPICS,
    }


def asked(actor: Actor, workload: UUID, arrangement: str) -> tuple[Workload, Arrangement]:
    """The entry that an address names; raises NotFound for an unknown one."""
    _only_console(actor)
    if arrangement not in set(Arrangement):
        raise NotFound
    return reading.workload_for(actor, workload), Arrangement(arrangement)


def confirm(actor: Actor, row: Workload, arrangement: Arrangement) -> dict[str, Any]:
    """The effect, before anything is done."""
    found = arranging.effect_of(actor=actor, workload=row, arrangement=arrangement)
    here = reverse("console-arrange", args=[row.pk, arrangement])
    return workload_detail.frame(row) | {
        "arrangement": arrangement,
        "effect": found,
        "here": here,
        "live_topics": [],
    }


def _only_console(actor: Actor) -> None:
    if not actor.sees_everything:
        raise NotFound


@dataclass(frozen=True)
class _Board:
    actor: Actor
    tenants: dict[tuple[UUID, str], Tenant]
    now: datetime

    def lines(self, entries: Iterable[MirrorObject], *, first: bool) -> list[Line]:
        """Those in the queues; on the first page also what is held, what Kueue has not seen yet, and what it
        let in that fits no node.
        """
        queued = list(entries)
        rows = self._rows(queued, first=first)
        clusters = {cluster for cluster, _ in self.tenants}
        queues = waiting.queues_of(clusters, rows.values())
        offers = {
            (o.cluster_id, o.resource_name): o
            for o in Offer.objects.filter(cluster__in=clusters).select_related("flavor")
        }
        seen = {entry.owner_id for entry in queued}
        queued += self._held_past()[:PAGE] if first else []
        told = [self._queued(entry, rows.get(entry.owner_id), queues, offers) for entry in queued]
        apart = [self._apart(row, queues) for pk, row in rows.items() if pk not in seen]
        return sorted(apart, key=lambda line: line.since) + told

    def _rows(self, entries: list[MirrorObject], *, first: bool) -> dict[str, Workload]:
        waiting_rows = self._waiting()
        ids = [entry.owner_id for entry in entries if entry.owner_kind == "workload"]
        rows = {str(row.pk): row for row in waiting_rows.filter(pk__in=ids)}
        if first:
            # Those that are in no queue: oldest first, at most a page of each.
            apart = [row for rows_apart in self._rows_apart() for row in rows_apart[:PAGE]]
            placed = places.places_of(apart)
            rows |= {str(row.pk): row for row in apart if str(row.pk) not in placed}
        return rows

    def _waiting(self) -> QuerySet[Workload]:
        """With what may hold a tenant's whole queue."""
        found = reading.workloads_for(self.actor).filter(phase=Phase.PENDING)
        return found.select_related("tenant__queue")

    def _rows_apart(self) -> tuple[QuerySet[Workload], QuerySet[Workload]]:
        latest = self._waiting().order_by("asked_at")
        is_in_none = Q(queue__isnull=True) | _UNPLACED
        return latest.exclude(held_at=None), latest.filter(is_in_none, held_at=None)

    def unplaced(self) -> int:
        """How many Kueue has let in that fit no node: they wait in no queue any more."""
        return self._waiting().filter(_UNPLACED).count()

    def _held_past(self) -> QuerySet[MirrorObject]:
        """Work made with kubectl that somebody took out of its queue."""
        held = places.held_in({cluster for cluster, _ in self.tenants}).exclude(owner_kind="workload")
        return held.filter(namespace__in={name for _, name in self.tenants}).order_by("created_at")

    def untold(self) -> int:
        """How many of those that are in no queue the page leaves out."""
        return sum(max(0, rows.count() - PAGE) for rows in (*self._rows_apart(), self._held_past()))

    def _queued(
        self, entry: MirrorObject, row: Workload | None, queues: waiting.Queues, offers: Offers
    ) -> Line:
        name, count = next(iter(observation.requested(entry.body).items()), ("", 0))
        tenant, offer = self.tenants[entry.cluster_id, entry.namespace], offers.get((entry.cluster_id, name))
        why = waiting.explanation_for(self.actor, row, self.now, queues) if row else None
        if row is None and offer is not None:
            why = waiting.explanation_past(self.actor, waiting.Past(entry, tenant, offer), queues, self.now)
        is_held = entry.queue_state == QueueState.HELD
        return Line(
            row=row,
            tenant=tenant.slug,
            name=row.name if row else entry.name,
            offer=row.offer.name if row else offer.name if offer else "no GPU",
            count=count,
            place=None if is_held else places.place(entry),
            is_held=is_held,
            since=row.asked_at if row else entry.created_at or self.now,
            why=why,
            starts=explain.span(why.starts, self.now) if why and why.starts else "",
            choices=self._choices(row),
        )

    def _apart(self, row: Workload, queues: waiting.Queues) -> Line:
        return Line(
            row=row,
            tenant=row.tenant.slug,
            name=row.name,
            offer=row.offer.name,
            count=reading.spec_of(row).devices,
            place=None,
            since=row.asked_at,
            why=waiting.explanation_for(self.actor, row, self.now, queues),
            starts="",
            choices=self._choices(row) if row.held_at else (),
            is_held=row.held_at is not None,
            is_admitted=obstacles.is_admitted(row),
        )

    def _choices(self, row: Workload | None) -> tuple[Arrangement, ...]:
        """Which buttons to show; the service decides again."""
        if row is None or not policies.can_arrange(self.actor, row):
            return ()
        if row.held_at is not None:
            return (Arrangement.RELEASE,)
        moves = Arrangement.FRONT if row.queue_priority is None else Arrangement.USUAL
        return (moves, Arrangement.HOLD)
