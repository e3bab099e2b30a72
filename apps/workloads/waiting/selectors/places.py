"""Places in Kueue's queues and who holds quota, read from the mirror's indexed columns. Reads only.

A place is a count over an index, never a list of the queue, so a look-up costs the same however many wait.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import CharField, Count, OuterRef, QuerySet, Subquery, UUIDField, Value
from django.db.models.functions import Coalesce

from apps.cluster import request_cache
from apps.cluster.models import MirrorObject
from apps.cluster.objects.queueing import QueueState
from apps.prepared import Prepared
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.status import derivation
from apps.workloads.waiting.rules.situation import Holder

ENDS = ("stops_at", "hours_due_at", "suspended")
"""The columns of a workload that tell when it ends."""


class Place(NamedTuple):
    """Where one stands among those that ask for the same in its tenant's ClusterQueue (1 is next), and how
    many these are.
    """

    position: int
    of: int


def waiting_in(clusters: Iterable[UUID], namespaces: Collection[str] | None = None) -> QuerySet[MirrorObject]:
    """All that waits in these clusters (and namespaces), the next one first; with `position` and `of`.

    RULE (Kueue, both queueing strategies): higher priority first, then the older one.
    """
    rows = waiting().filter(cluster__in=list(clusters))
    if namespaces is not None:
        rows = rows.filter(namespace__in=namespaces)
    return rows.order_by("queue_rank")


def waiting() -> QuerySet[MirrorObject]:
    """All that waits anywhere, with `position` and `of`; without an order."""
    return _placed(_queued(QueueState.WAITS))


def entry_of(row: Workload) -> MirrorObject | None:
    """The Kueue Workload of a row's present run that waits, with `position` and `of`; None before Kueue has
    seen it and once it holds quota.
    """
    own = _queued(QueueState.WAITS).filter(owner_id=str(row.pk), deleting=False)
    return _placed(own).order_by("-resource_version").first()


def places_of(rows: Iterable[Workload]) -> dict[str, MirrorObject]:
    """`entry_of` for many rows in one query, by the row's id."""
    return {entry.owner_id: entry for entry in _PLACES([str(row.pk) for row in rows])}


def beside(entry: MirrorObject) -> QuerySet[MirrorObject]:
    """Everything else that waits for the same in the queue of an entry, which may be held itself; without an
    order.
    """
    same = _queued(QueueState.WAITS).filter(cluster=entry.cluster_id, namespace=entry.namespace)
    return same.filter(queue_asks=entry.queue_asks).exclude(pk=entry.pk)


def held_in(clusters: Iterable[UUID]) -> QuerySet[MirrorObject]:
    """Everything that was taken out of its queue by hand."""
    return _queued(QueueState.HELD).filter(cluster__in=list(clusters))


@dataclass(frozen=True)
class Holdings:
    """What holds quota in some clusters, read once for many questions: at most what the fleet has."""

    seen: tuple[MirrorObject, ...]
    rows: Mapping[str, Mapping[str, Any]]

    def holders(self, offer: Offer) -> list[Holder]:
        """Who holds quota of the offer, by tenant; work made outside the portal counts like any other."""
        return [
            Holder(seen.tenant, offer.slug, count, self.ends(seen))  # type: ignore[attr-defined]
            for seen, count in self.of(offer)
        ]

    def of(self, offer: Offer) -> list[tuple[MirrorObject, int]]:
        """The Kueue Workloads that hold quota of the offer, with how many devices each."""
        counted = ((seen, derivation.reserved_devices(seen.body, offer.resource_name)) for seen in self.seen)
        return [(seen, n) for seen, n in counted if n and seen.cluster_id == offer.cluster_id]

    def ends(self, seen: MirrorObject) -> datetime | None:
        """When its lease runs out, or its working hours end."""
        return known_end(self.rows.get(seen.owner_id, {}))


def known_end(row: Mapping[str, Any]) -> datetime | None:
    """The earliest end that is known beforehand, of the columns ENDS of a workload; None: none is."""
    by_hours = None if row.get("suspended") else row.get("hours_due_at")
    return min(filter(None, (row.get("stops_at"), by_hours)), default=None)


def holdings(clusters: Iterable[UUID]) -> Holdings:
    """Everything that holds quota in these clusters, whose it is and when it ends: two queries."""
    seen = tuple(_HOLDING(sorted(clusters)))
    rows = _ROWS(sorted({e.owner_id for e in seen if e.owner_kind == "workload"}))
    return Holdings(seen=seen, rows={str(row["pk"]): row for row in rows})


def holdings_in(cluster: UUID) -> Holdings:
    """`holdings` of one cluster, read once in a request."""
    return request_cache.memo(("holdings", cluster), lambda: holdings([cluster]))


def place(entry: MirrorObject | None) -> Place | None:
    """The place of an entry that `waiting_in`, `entry_of` or `places_of` gave."""
    return Place(entry.ahead + 1, entry.of) if entry else None  # type: ignore[attr-defined]


_OF_KUEUE = (
    "body", "cluster", "created_at", "name", "namespace", "owner_id", "owner_kind", "queue_asks",
    "queue_state", "seen_at", "uid",
)  # fmt: skip
"""What is read of a mirrored Kueue Workload, of which a page may show hundreds."""
_IN_NAMESPACE = Tenant.objects.filter(cluster=OuterRef("cluster"), object_name=OuterRef("namespace"))
_HOLDING = Prepared(
    lambda clusters: (
        _queued(QueueState.HOLDS)
        .filter(cluster__pk__in=clusters)
        .only(*_OF_KUEUE)
        .annotate(tenant=Subquery(_IN_NAMESPACE.values("slug")))
    ),
    UUIDField(),
)
_ROWS = Prepared(
    lambda ids: Workload.objects.filter(pk__in=ids).values("pk", "kind", "started_at", *ENDS),
    UUIDField(),
)
_PLACES = Prepared(
    lambda ids: (
        _placed(_queued(QueueState.WAITS).filter(owner_id__in=ids, deleting=False))
        .order_by("resource_version")
        .only(*_OF_KUEUE)
    ),
    CharField(),
)


def _queued(state: QueueState) -> QuerySet[MirrorObject]:
    return MirrorObject.objects.filter(queue_state=state, gone_at=None)


def _placed(rows: QuerySet[MirrorObject]) -> QuerySet[MirrorObject]:
    alike = {name: OuterRef(name) for name in ("cluster", "namespace", "queue_asks")}
    same = _queued(QueueState.WAITS).filter(**alike)
    return rows.annotate(
        ahead=_count(same.filter(queue_rank__lt=OuterRef("queue_rank"))),
        of=_count(same),
    )


def _count(rows: QuerySet[MirrorObject]) -> Coalesce:
    counted = rows.order_by().values("namespace").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted), Value(0))
