"""Estimates when what waits will start: facts of the mirror and of past runs into `eta`. A selector: reads
only; `apps.workloads.waiting.services.predicting` keeps what it finds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import CharField, DateTimeField, QuerySet, UUIDField

from apps.cluster.models import MirrorObject
from apps.cluster.request_cache import memo
from apps.prepared import Prepared
from apps.quotas.allowances.selectors.entitlements import Entitlement, entitlements
from apps.quotas.catalogue.selectors import stock
from apps.quotas.kueue import observation
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.waiting.rules import eta
from apps.workloads.waiting.rules.eta import Ask, History, Interval, Pool, Run
from apps.workloads.waiting.selectors import places

LOOK_BACK = timedelta(days=90)
MOST_RUNS = 1000
"""Past runs of a department that count, the latest ones."""
MOST_ENTRIES = 400
"""How far into a department's queue one looks for those who ask for the offer."""


@dataclass(frozen=True)
class Foreseen:
    """What is told of one workload; `starts` None: nothing is known."""

    position: int
    starts: Interval | None


def foresee(offer: Offer, department: UUID, *, now: datetime) -> dict[str, Foreseen]:
    """Every workload of ours that waits for the offer in the department's queues, by its id."""
    scene = _scene(offer, department, now)
    entries = [entry for entry, _ in scene.asking if entry.owner_kind == "workload"]
    starts = eta.estimate(scene.pool, scene.runs, scene.asks, scene.history, now=now, seed=_seed(now))
    return {
        entry.owner_id: Foreseen(entry.ahead + 1, starts.get(entry.uid))  # type: ignore[attr-defined]
        for entry in entries
    }


def of_request(
    tenant: Tenant, offer: Offer, kind: str, *, count: int, longest: int | None, now: datetime
) -> Interval | None:
    """When a request would start that were made now, behind all that wait already."""
    scene = _scene(offer, tenant.department_id, now)
    own = Ask("", tenant.slug, kind, count, longest)
    starts = eta.estimate(scene.pool, scene.runs, [*scene.asks, own], scene.history, now=now, seed=_seed(now))
    return starts.get(own.id)


@dataclass(frozen=True)
class _Scene:
    pool: Pool
    runs: list[Run]
    asking: list[tuple[MirrorObject, int]]
    asks: list[Ask]
    history: History


@dataclass(frozen=True)
class _Department:
    """What is the same for every offer that a department asks for: one request reads it once."""

    names: Mapping[str, str]
    entitled: list[Entitlement]
    history: History


def _department(department: UUID, now: datetime) -> _Department:
    tenants = _TENANTS(department)
    names = {tenant.object_name: tenant.slug for tenant in tenants}
    return _Department(names, entitlements(department, now=now), history(tenants, now=now))


def _scene(offer: Offer, department: UUID, now: datetime) -> _Scene:
    own = memo(("department", department, now), lambda: _department(department, now))
    names = own.names
    quotas = {e.tenant.slug: e.quota for e in own.entitled if e.offer.pk == offer.pk}
    held = [p for p in places.holdings_in(offer.cluster_id).of(offer) if p[0].namespace in names]
    queued = memo(("queued", department, offer.cluster_id, now), lambda: _queued(offer.cluster_id, names))
    asking = _asking(offer, queued)
    rows = _rows([entry.owner_id for entry, _ in (*held, *asking) if entry.owner_kind == "workload"])
    elsewhere = stock.supply(offer.cluster).get(offer.pk, stock.NOTHING)
    return _Scene(
        pool=Pool(quotas, sum(count for _, count in held) + elsewhere.free),
        runs=[_run(entry, count, names[entry.namespace], rows) for entry, count in held],
        asking=asking,
        asks=[_ask(entry, count, names[entry.namespace], rows) for entry, count in asking],
        history=own.history,
    )


def _queued(cluster: UUID, names: Mapping[str, str]) -> list[MirrorObject]:
    return _WAITING(cluster, list(names))


_TENANTS = Prepared(
    lambda department: Tenant.objects.filter(department=department, deleted_at=None), UUIDField()
)
_WAITING = Prepared(
    lambda cluster, namespaces: (
        places.waiting()
        .filter(cluster=cluster, namespace__in=namespaces)
        .order_by("queue_rank")[:MOST_ENTRIES]
    ),
    UUIDField(),
    CharField(),
)


def _asking(offer: Offer, queued: Iterable[MirrorObject]) -> list[tuple[MirrorObject, int]]:
    counted = ((entry, observation.requested(entry.body)[offer.resource_name]) for entry in queued)
    return [(entry, count) for entry, count in counted if count][: eta.MOST_ASKS]


def _rows(ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    return {str(row["pk"]): row for row in _ROWS(list(ids))}


_ROWS = Prepared(
    lambda pks: Workload.objects.filter(pk__in=pks).values("pk", "kind", "started_at", "spec", *places.ENDS),
    UUIDField(),
)


def _run(entry: MirrorObject, count: int, tenant: str, rows: Mapping[str, Mapping[str, Any]]) -> Run:
    row = rows.get(entry.owner_id, {})
    since = row.get("started_at") or entry.created_at or entry.seen_at
    return Run(tenant, row.get("kind", ""), count, since, places.known_end(row))


def _ask(entry: MirrorObject, count: int, tenant: str, rows: Mapping[str, Mapping[str, Any]]) -> Ask:
    row = rows.get(entry.owner_id, {})
    longest = row.get("spec", {}).get("max_run_seconds")
    return Ask(entry.uid, tenant, row.get("kind", ""), count, longest)


def history(tenants: Iterable[Tenant], *, now: datetime) -> History:
    """How long the latest runs of these tenants took, those of deleted workloads too."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    chosen = [tenant.pk for tenant in tenants]
    for kind, tenant, started_at, ended_at in _PAST(chosen, now - LOOK_BACK):
        if started_at and ended_at:
            samples[kind, tenant].append(max(0.0, (ended_at - started_at).total_seconds()))
    return History(samples)


def _past(tenants: Any, since: Any) -> QuerySet[Workload, Any]:
    past = Workload.objects.filter(tenant__pk__in=tenants, started_at__isnull=False, ended_at__gt=since)
    took = past.order_by("-ended_at").values_list("kind", "tenant__slug", "started_at", "ended_at")
    return took[:MOST_RUNS]


_PAST = Prepared(_past, UUIDField(), DateTimeField())


def _seed(now: datetime) -> int:
    """The same within a minute, so that a page that is looked at twice says the same."""
    return int(now.timestamp()) // 60
