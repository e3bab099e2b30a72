"""Why something waits, as one viewer may know it: gathers facts for `explain` and asks it. Reads only.

Places, holders and what is free move whenever anybody's work does, so they are read when somebody asks and
never stored; only estimates are (`apps.workloads.waiting.selectors.foresight`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import UUIDField

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import find
from apps.cluster.objects.queueing import QueueState
from apps.prepared import Prepared
from apps.quotas.allowances.rules import fit
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.rules import room
from apps.quotas.catalogue.rules.room import fits
from apps.quotas.catalogue.selectors import stock
from apps.quotas.kueue import observation
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism
from apps.tenants.models import Tenant
from apps.tenants.selectors import neighbours_of
from apps.web.shapes import amounts
from apps.workloads import registry
from apps.workloads.models import StartEstimate, Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadSpec
from apps.workloads.status import derivation
from apps.workloads.waiting.rules import explain
from apps.workloads.waiting.rules.bodies import IntervalBody, OfferHolderBody, SmallerBody, WorkloadQueueBody
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.situation import Alternative, Explanation, Holder, Situation, View
from apps.workloads.waiting.rules.smaller import Smaller, shrunk
from apps.workloads.waiting.selectors import node_room, obstacles, places

LATEST = 20
"""How many of the rows that changed last tell whether Kueue answers: what silences one silences all."""


@dataclass
class Queues:
    """What many explanations share: holders, and where each tenant stands; each is read once, when asked."""

    holdings: places.Holdings
    entries: dict[str, MirrorObject] | None = None
    owns: dict[str, MirrorObject] | None = None
    estimates: dict[UUID, StartEstimate] | None = None
    _holders: dict[UUID, tuple[Holder, ...]] = field(default_factory=dict)
    _standings: dict[UUID, dict[UUID, standing.Standing]] = field(default_factory=dict)
    _quotas: dict[tuple[UUID, UUID], dict[str, int]] = field(default_factory=dict)
    _choices: dict[UUID, list[standing.OfferChoice]] = field(default_factory=dict)
    _silent: dict[UUID, bool] = field(default_factory=dict)

    def entry(self, row: Workload) -> MirrorObject | None:
        """The Kueue Workload of a row while it waits."""
        return places.entry_of(row) if self.entries is None else self.entries.get(str(row.pk))

    def own(self, row: Workload) -> MirrorObject | None:
        """The Kueue Workload of a row that has no place in the queue."""
        return obstacles.own_of(row) if self.owns is None else self.owns.get(str(row.pk))

    def estimate(self, row: Workload, now: datetime) -> Interval | None:
        """When it starts, as far as somebody has foretold."""
        made = obstacles.newest_of(row) if self.estimates is None else self.estimates.get(row.pk)
        return obstacles.interval_of(made, now)

    def holders(self, offer: Offer) -> tuple[Holder, ...]:
        """Who holds quota of an offer, by tenant."""
        if offer.pk not in self._holders:
            self._holders[offer.pk] = explain.merged(self.holdings.holders(offer))
        return self._holders[offer.pk]

    def standings(self, tenant: Tenant, now: datetime) -> dict[UUID, standing.Standing]:
        """Where the tenant stands with each offer."""
        if tenant.pk not in self._standings:
            self._standings[tenant.pk] = standing.standings(tenant, now=now)
        return self._standings[tenant.pk]

    def quota(self, tenant: Tenant, offer: Offer, now: datetime) -> dict[str, Any]:
        """What the tenant can reach of an offer, uses, and could take now, as a `Situation` has it."""
        key = tenant.pk, offer.pk
        if key not in self._quotas:
            self._quotas[key] = _quota(self.standings(tenant, now).get(offer.pk))
        return self._quotas[key]

    def choices(self, tenant: Tenant, now: datetime) -> list[standing.OfferChoice]:
        """What the tenant may choose from."""
        if tenant.pk not in self._choices:
            self._choices[tenant.pk] = standing.offer_choices(tenant, now=now)
        return self._choices[tenant.pk]

    def is_kueue_silent(self, cluster: Cluster) -> bool:
        """As the function of that name."""
        if cluster.pk not in self._silent:
            self._silent[cluster.pk] = is_kueue_silent(cluster)
        return self._silent[cluster.pk]


def queues_of(clusters: Iterable[UUID], rows: Iterable[Workload] | None = None) -> Queues:
    """For the questions about these clusters; `rows` reads at once what is asked of many workloads."""
    holdings = places.holdings(clusters)
    if rows is None:
        return Queues(holdings)
    queued = [row for row in rows if row.phase == Phase.PENDING]
    entries = places.places_of(queued)
    owns = obstacles.own_of_each(row for row in queued if str(row.pk) not in entries)
    return Queues(holdings, entries, owns, obstacles.newest_of_each(queued))


def explanation_for(
    actor: Actor, row: Workload, now: datetime, queues: Queues | None = None
) -> Explanation | None:
    """Why it waits or cannot start, as far as this viewer may know; None for one that does neither."""
    if row.phase not in (Phase.PENDING, Phase.STARTING):
        return None
    with request_cache.scope():  # devices and quota are asked about from several sides
        situation = _situation(actor, row, queues or queues_of([row.cluster_id]), now)
    return explain.explain(situation, _view(actor), now=now) if situation else None


@dataclass(frozen=True)
class Past:
    """Work that was made outside the portal: its mirrored Kueue Workload, whose it is, what it asks for."""

    entry: MirrorObject
    tenant: Tenant
    offer: Offer


def explanation_past(actor: Actor, past: Past, queues: Queues, now: datetime) -> Explanation:
    """Why it waits, as far as its Kueue Workload tells."""
    with request_cache.scope():
        situation = _situation_past(past, queues, now)
    return explain.explain(situation, _view(actor), now=now)


def queue_of(
    actor: Actor, row: Workload, now: datetime, queues: Queues | None = None
) -> WorkloadQueueBody | None:
    """The `queue` of a workload's status as REST shows it; null unless it waits or cannot start."""
    found = explanation_for(actor, row, now, queues)
    return as_json(found) if found else None


def as_json(found: Explanation) -> WorkloadQueueBody:
    """An explanation as REST has it: the same words as on the page."""
    currency = settings.CONFIG.currency
    return {
        "position": found.position, "of": found.of,
        "cause": found.cause,
        "reason": found.reason,
        "message": " ".join((found.headline, *found.sentences)),
        "frees": found.frees or None,
        "detail": found.detail,
        "eta": interval_body(found.starts),
        "holders": holder_bodies(found.holders),
        "alternatives": [
            {"offer": a.offer, "name": a.name, "hourly": amounts.money(a.hourly, a.currency or currency)}
            for a in found.alternatives
        ],
        "smaller": _smaller_body(found.smaller, currency),
    }  # fmt: skip


def _smaller_body(found: Smaller | None, currency: str) -> SmallerBody | None:
    if found is None:
        return None
    return {"count": found.count, "pods": found.pods, "hourly": amounts.money(found.hourly, currency)}


def interval_body(found: Interval | None) -> IntervalBody | None:
    """When it starts, as REST has it."""
    return {"p10": found.p10, "p50": found.p50, "p90": found.p90} if found else None


def holder_bodies(found: Iterable[Holder]) -> list[OfferHolderBody]:
    """Who holds devices, as REST has it."""
    return [
        {"tenant": each.tenant, "offer": each.offer, "count": each.count, "until": each.until}
        for each in found
    ]


def is_kueue_silent(cluster: Cluster) -> bool:
    """Whether Kueue made no Workload in time for some row, or its webhook, which fails closed, refused one.

    It is judged by what changed last of all that waits in the cluster. Where the cluster lacks what Kueue
    needs, that is why, and not its silence.
    """
    if not obstacles.is_complete(cluster):
        return False
    return request_cache.memo(
        ("kueue silent", cluster.pk), lambda: any(map(_tells_of_silence, _CHANGED_LAST(cluster.pk)))
    )


_CHANGED_LAST = Prepared(
    lambda cluster: (
        Workload.objects.filter(cluster=cluster, phase=Phase.PENDING, deleted_at=None)
        .order_by("-updated_at")
        .values_list("conditions", flat=True)[:LATEST]
    ),
    UUIDField(),
)


def silent(cluster: Cluster) -> str:
    """Who is silent, so that nothing starts whatever is free: the cluster's name, Kueue, or "" for nobody."""
    if cluster.phase == Cluster.Phase.SILENT:
        return str(cluster.name)
    return "Kueue" if is_kueue_silent(cluster) else ""


def silence(cluster: Cluster) -> str:
    """`silent` as a sentence for what would start now."""
    who = silent(cluster)
    return (
        f"Nothing starts now: {who} does not answer. It starts by itself as soon as {who} does."
        if who
        else ""
    )


def _tells_of_silence(conditions: Any) -> bool:
    reserved, synced = find(conditions, "QuotaReserved"), find(conditions, "Synced")
    if reserved and reserved["reason"] == derivation.KUEUE_SILENT:
        return True
    return bool(synced and synced["status"] == "False" and synced["reason"] == "WebhookUnavailable")


def alternatives(
    offer: Offer, spec: WorkloadSpec, choices: Iterable[standing.OfferChoice], cluster: Cluster
) -> tuple[Alternative, ...]:
    """What would start now instead, cheapest first: as much GPU memory per device, or memory per core, and
    room for all of its pods, each on one node.
    """
    count = spec.devices
    return tuple(
        Alternative(
            choice.offer.slug,
            choice.offer.name,
            None if choice.hourly is None else choice.hourly * count,
            choice.currency,
        )
        for choice in choices
        if choice.starts_now
        and choice.offer.pk != offer.pk
        and choice.free_now >= count
        and is_as_large(choice.offer, offer)
        and fits(stock.places_free(choice.offer, cluster), spec.per_pod, spec.pods)
    )


def is_as_large(offer: Offer, than: Offer) -> bool:
    """Whether work for the one fits the other: devices with as much memory, or cores with as much each."""
    if offer.is_cores or than.is_cores:
        return offer.is_cores and than.is_cores and offer.memory_bytes >= than.memory_bytes
    return offer.gpu_memory_bytes >= than.gpu_memory_bytes


def _situation(actor: Actor, row: Workload, queues: Queues, now: datetime) -> Situation | None:
    """The facts of one row; None for one that is starting as it should."""
    spec, admitted = reading.spec_of(row), obstacles.is_admitted(row)
    tenant, offer, cluster = row.tenant, row.offer, row.cluster
    trouble, unplaced = obstacles.trouble_of(row), node_room.unplaced(actor, row)
    if admitted and not (trouble or unplaced):
        return None
    entry = None if admitted else queues.entry(row)
    own = None if admitted else entry or queues.own(row)
    quota = queues.quota(tenant, offer, now)
    lack = obstacles.lack_of(row, entry)
    place = places.place(entry)
    reserved = find(row.conditions, "Ready" if admitted else "QuotaReserved")
    return Situation(
        tenant=tenant.slug,
        department=tenant.department.slug,
        offer=offer.slug,
        offer_name=offer.name,
        asked=spec.devices,
        per_pod=spec.per_pod,
        reason=reserved["reason"] if reserved else "Accepted",
        message=_detail(row, reserved),
        position=place.position if place else None,
        of=place.of if place else None,
        holders=queues.holders(offer),
        alternatives=alternatives(offer, spec, queues.choices(tenant, now), cluster),
        smaller=_smaller(row, spec, quota.get("available", 0), queues.choices(tenant, now)),
        cluster=cluster.name,
        silent_since=cluster.silent_since if cluster.phase == Cluster.Phase.SILENT else None,
        kueue_silent=not admitted and queues.is_kueue_silent(cluster),
        lack=lack,
        stop=None if admitted else obstacles.stop_of(row, now) or obstacles.stop_of_kueue(row, own, now),
        trouble=trouble,
        refused=obstacles.refusal_of(row, now) or obstacles.failure_of(row),
        eviction=obstacles.loss_of(row, entry),
        admitted=admitted,
        unplaced=unplaced,
        starts=None if admitted else queues.estimate(row, now),
        room=_room(row, spec, quota.get("available", 0)),
        **quota,
    )


def _situation_past(past: Past, queues: Queues, now: datetime) -> Situation:
    entry, tenant, offer = past.entry, past.tenant, past.offer
    asked, pods = observation.requested(entry.body)[offer.resource_name], observation.pods(entry.body)
    place = places.place(entry) if entry.queue_state == QueueState.WAITS else None
    reserved = derivation.condition_of(entry.body, "QuotaReserved") or {}
    quota = queues.quota(tenant, offer, now)
    is_placed = offer.mechanism == Mechanism.DRA and quota.get("available", 0) >= asked
    return Situation(
        tenant=tenant.slug,
        department=tenant.department.slug,
        offer=offer.slug,
        offer_name=offer.name,
        asked=asked,
        per_pod=max(1, asked // max(1, pods)),
        reason=str(reserved.get("reason", "")),
        message=str(reserved.get("message", "")),
        position=place.position if place else None,
        of=place.of if place else None,
        holders=queues.holders(offer),
        cluster=tenant.cluster.name,
        silent_since=tenant.cluster.silent_since if tenant.cluster.phase == Cluster.Phase.SILENT else None,
        kueue_silent=queues.is_kueue_silent(tenant.cluster),
        stop=obstacles.stop_past(entry, now) or obstacles.stop_of_tenant(tenant),
        eviction=obstacles.eviction_of(entry),
        room=stock.room_of(offer, tenant.cluster) if is_placed else None,
        **quota,
    )


def _quota(stands: standing.Standing | None) -> dict[str, int]:
    if stands is None:
        return {"reachable": 0, "own_used": 0}
    return {
        "reachable": fit.reachable(stands.own.quota, [use.quota for use in stands.others]),
        "own_used": stands.own.used,
        "nominal": stands.own.quota.nominal,
        "available": fit.available(stands.own, stands.others),
        "lent": stands.lent,
    }


def _room(row: Workload, spec: WorkloadSpec, available: int) -> room.Room | None:
    """Where the devices or cores are; only read where it may be what keeps it. A device plugin tells no
    places.
    """
    if row.offer.mechanism == Mechanism.DEVICE_PLUGIN:
        return None
    is_asked = obstacles.is_admitted(row) or available >= spec.devices or spec.per_pod > 1
    return stock.room_of(row.offer, row.cluster) if is_asked else None


def _smaller(
    row: Workload, spec: WorkloadSpec, available: int, choices: Iterable[standing.OfferChoice]
) -> Smaller | None:
    """How much less of it would start now; of cores nothing is told, which have no count, nor of replicas,
    which queue one by one: those that fit have started.
    """
    offer, pods, definition = row.offer, spec.pods, registry.of(row.kind)
    is_admitted = obstacles.is_admitted(row)
    available += spec.devices if is_admitted else 0  # it gives that back itself
    can_shrink = pods == 1 or (definition.several and not definition.rolls)
    if row.phase != Phase.PENDING or offer.is_cores or spec.devices < 2 or not (available and can_shrink):
        return None
    own = (each for each in choices if each.offer.pk == offer.pk)
    gives_back = is_admitted and not standing.hold_words(row.tenant)
    choice = next((each for each in own if each.starts_now or (gives_back and each.allowed)), None)
    found = choice and shrunk(
        spec.count, pods, available=available, places=stock.places_free(offer, row.cluster)
    )
    if not choice or not found:
        return None
    count, fewer = found
    hourly = None if choice.hourly is None else choice.hourly * count * fewer
    return Smaller(count, fewer if pods > 1 else None, hourly, choice.currency)


def _detail(row: Workload, reserved: Any) -> str:
    """Kueue's words; the API server's where it refused what we applied and it is not about Kueue itself."""
    synced = find(row.conditions, "Synced")
    if synced and synced["status"] == "False":
        return obstacles.told(synced)
    return str(reserved["message"]) if reserved else ""


def _view(actor: Actor) -> View:
    """Tenants of one's own departments are named; platform engineers and auditors see everything."""
    known = neighbours_of(actor)
    return View() if known is None else View(known, knows_nodes=False)
