"""What the console's pages of offers and quotas show. Reads only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.mirror.selectors import inventory as fleet
from apps.cluster.models import Cluster
from apps.errors import NotFound
from apps.quotas import policies
from apps.quotas.allowances.selectors import sharing, standing
from apps.quotas.allowances.selectors.standing import QuotaBar
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.rules.drafts import OfferDraft
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book, stock
from apps.quotas.catalogue.selectors.stock import NOTHING, Supply
from apps.quotas.catalogue.services import core_offers
from apps.quotas.models import Offer, Price, Quota
from apps.quotas.specs import CapacityType, Priced, Priority, SharingMode
from apps.tenants import selectors as tenancy
from apps.tenants.models import Department, Tenant
from portal.pages.console.quotas.catalogue_forms import ShareForm


@dataclass(frozen=True)
class OfferRow:
    """An offer as the table shows it; `next_price` is the one that follows."""

    offer: Offer
    supply: Supply
    hourly: Decimal | None
    next_price: Price | None
    isolation: str
    tenants: int


@dataclass(frozen=True)
class Found:
    """What could be offered, and why adoption leaves it out, if it does."""

    offer: OfferDraft
    refusal: str


@dataclass(frozen=True)
class PriceRow:
    """A price as the book shows it."""

    row: Price
    is_in_force: bool
    is_to_come: bool

    @property
    def what(self) -> str:
        """What it is charged for."""
        priced = Priced(self.row.resource)
        return f"{priced.label}, per {priced.unit}"

    @property
    def capacity(self) -> str:
        """The kind of node it is for, as people read it."""
        return CapacityType(self.row.capacity).label if self.row.capacity else "Any"


@dataclass(frozen=True)
class Cell:
    """One tenant's quota of one offer; without quota both are None."""

    offer: Offer
    quota: Quota | None
    bar: QuotaBar | None

    @property
    def words(self) -> str:
        """`2 + 4`: guaranteed 2, may borrow 4."""
        if self.quota is None:
            return "-"
        nominal, limit = self.quota.nominal_quota, self.quota.borrowing_limit
        return f"{nominal} + {'any' if limit is None else limit}" if limit != 0 else str(nominal)

    @property
    def under(self) -> str:
        """How it is used."""
        bar = self.bar
        if bar is None:
            return ""
        rest = ((bar.borrowed, "borrowed"), (bar.lent, "lent"), (bar.pending, "waiting"))
        return ", ".join([f"{bar.used} used", *(f"{count} {word}" for count, word in rest if count)])


@dataclass(frozen=True)
class Row:
    """A tenant's line of the matrix."""

    tenant: Tenant
    weight: Decimal
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """An offer's head of the matrix: what is promised of it, what there is."""

    offer: Offer
    promised: int
    owned: int

    @property
    def is_beyond(self) -> bool:
        """Whether more is promised than there is."""
        return self.promised > self.owned


@dataclass(frozen=True)
class Matrix:
    """A cluster's tenants and offers."""

    cluster: Cluster
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    departments: tuple[Department, ...]
    sentences: tuple[str, ...]


@request_cache.scope()
def offers(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """Every offer, and what the inventory found that is not offered yet."""
    require_console(actor)
    rows = _offer_rows(catalogue_offers.offers_for(actor).order_by("flavor__slug", "gpu_memory_bytes"), now)
    return {
        "rows": rows,
        "without": sum(row.supply.capacity == 0 for row in rows),
        "unpriced": sum(row.hourly is None for row in rows),
        "found": [draft for cluster in fleet.clusters_for(actor) for draft in _not_offered(cluster)],
        "can_change": policies.can_manage_catalogue(actor),
        "live_topics": ["console"],
    }


def offer(actor: Actor, found: Offer, *, now: datetime) -> dict[str, Any]:
    """One offer: what it is, its prices, and who has quota of it."""
    require_console(actor)
    rows = found.prices.select_related("tenant").order_by("-valid_from")
    prices = _book(rows, now)
    for_all = [each.row for each in prices if each.is_in_force and each.row.tenant is None]
    quotas = found.quotas.filter(tenant__deleted_at=None).select_related("tenant").order_by("tenant__name")
    return {
        "offer": found,
        "row": _offer_rows(catalogue_offers.offers_for(actor).filter(pk=found.pk), now)[0],
        "prices": prices,
        "current": max(for_all, key=lambda price: (not price.capacity, price.valid_from), default=None),
        "quotas": list(quotas),
        "now": now,
        "can_change": policies.can_manage_catalogue(actor),
    }


def resource_prices(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """What a core, and a GiB of memory or storage, cost."""
    require_console(actor)
    rows = price_book.prices_for(actor).filter(offer=None).order_by("resource", "-valid_from")
    return {
        "prices": _book(rows, now),
        "now": now,
        "can_change": policies.can_manage_catalogue(actor),
    }


def payers(actor: Actor, of: Offer | None = None) -> list[Tenant]:
    """The tenants that may get a price of their own."""
    rows = tenancy.tenants_for(actor).order_by("name")
    return list(rows.filter(cluster=of.cluster_id) if of else rows)


def _book(rows: Iterable[Price], now: datetime) -> list[PriceRow]:
    """Each price, with whether it decides at this moment for those whom it is for."""
    listed = list(rows)
    last: dict[Any, Price] = {}
    for row in sorted(listed, key=lambda each: each.valid_from):
        if row.valid_from <= now and (row.valid_until is None or now < row.valid_until):
            last[row.resource, row.offer_id, row.tenant_id, row.capacity] = row
    deciding = set(last.values())
    return [PriceRow(row, row in deciding, row.valid_from > now) for row in listed]


@request_cache.scope()
def quotas(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """Tenants against offers, cluster by cluster."""
    require_console(actor)
    return {
        "matrices": [_matrix(actor, cluster, now) for cluster in fleet.clusters_for(actor)],
        "priorities": sorted(Priority, key=lambda each: -each.rank),
        "can_change": policies.can_manage_catalogue(actor),
        "live_topics": ["console"],
    }


def quota(actor: Actor, tenant: Tenant, found: Offer) -> dict[str, Any]:
    """One cell of the matrix, to be changed."""
    require_console(actor)
    bars = {bar.offer.pk: bar for bar in standing.quota_bars(actor, tenant, now=timezone.now())}
    row, bar = Quota.objects.filter(tenant=tenant, offer=found).first(), bars.get(found.pk)
    return {"tenant": tenant, "offer": found, "quota": row, "told": _told(row, bar) if row else ""}


def _told(row: Quota, bar: QuotaBar | None) -> str:
    """How a quota is bounded and used, after what it guarantees."""
    borrows = "whatever is lent" if row.borrowing_limit is None else row.borrowing_limit
    lends = "all that is idle" if row.lending_limit is None else row.lending_limit
    bounds = f"may borrow {borrows}, lends {lends}."
    if bar is None:
        return bounds
    borrowed = f", {bar.borrowed} of them borrowed" if bar.borrowed else ""
    rest = "".join(f"; {n} {word}" for n, word in ((bar.lent, "lent"), (bar.pending, "waiting")) if n)
    return f"{bounds} {bar.used} used{borrowed}{rest}."


def weight(tenant: Tenant) -> dict[str, Any]:
    """A tenant's weight, to be changed: what it means on its cluster."""
    return {"tenant": tenant, "sentences": sharing.of_cluster(tenant.cluster).sentences[1:]}


def place(department: Department) -> dict[str, Any]:
    """Where a department stands now and what it borrows and lends, as its form takes it."""
    ends = {
        f"{end}-{bound.offer.slug}": getattr(bound, end)
        for bound in sharing.bounds_of(department)
        for end in ("borrowing", "lending")
    }
    above, weight = department.parent.slug if department.parent else "", department.fair_weight.normalize()
    return {"fair_weight": weight, "parent": above, "generation": department.generation, **ends}


def share_form(actor: Actor, department: Department, typed: Mapping[str, Any] | None) -> ShareForm:
    """The form with what holds now, for every offer of its cluster and every department it may go below."""
    others = tenancy.departments_for(actor).filter(cluster=department.cluster).exclude(pk=department.pk)
    offers = [each for each in catalogue_offers.offers_in(department.cluster_id) if not each.is_cores]
    return ShareForm(others.order_by("name"), offers, typed, initial=place(department))


def share(actor: Actor, department: Department) -> dict[str, Any]:
    """One department's place and weight, to be changed."""
    require_console(actor)
    told = sharing.of_cluster(department.cluster)
    return {"department": department, "sentences": told.sentences[1:]}


def require_console(actor: Actor) -> None:
    """These pages are for platform engineers and auditors; for everybody else they do not exist."""
    if not actor.sees_everything:
        raise NotFound


def _offer_rows(offers: QuerySet[Offer], now: datetime) -> list[OfferRow]:
    """Read together: as many statements for one offer as for all."""
    coming = Price.objects.filter(valid_from__gt=now, tenant=None).order_by("valid_from")
    found = offers.annotate(holders=Count("quotas", filter=Q(quotas__tenant__deleted_at=None)))
    sold = list(found.prefetch_related(Prefetch("prices", coming, to_attr="coming")))
    hourly = price_book.prices_at(sold, now)
    return [
        OfferRow(
            offer=offer,
            supply=stock.supply(offer.cluster).get(offer.pk, NOTHING),
            hourly=hourly.get(offer.pk),
            next_price=next(iter(offer.coming), None),
            isolation=SharingMode(offer.sharing_mode).isolation,
            tenants=offer.holders,
        )
        for offer in sold
    ]


def _not_offered(cluster: Cluster) -> Iterable[Found]:
    """Devices and cores that exist but are not offered, by the flavor's model and labels, and profile."""
    known = {
        (offer.flavor.model, tuple(sorted(offer.flavor.node_labels.items())), offer.profile)
        for offer in Offer.objects.filter(cluster=cluster, deleted_at=None).select_related("flavor")
    }
    for draft in inventory_plan.plan(fleet.devices(cluster), fleet.nodes(cluster)):
        labels = tuple(sorted(draft.node_labels.items()))
        new = [each for each in draft.offers if (draft.model, labels, each.profile) not in known]
        if new and not core_offers.is_sold_by_hand(cluster, draft):
            is_there = any((draft.model, labels) == one[:2] for one in known)
            refusal = "" if is_there else core_offers.refusal_of(cluster, draft)
            yield from (Found(each, refusal) for each in new)


def _matrix(actor: Actor, cluster: Cluster, now: datetime) -> Matrix:
    tenants = list(tenancy.tenants_for(actor).filter(cluster=cluster).order_by("department__name", "name"))
    columns = _columns(cluster)
    held = {(q.tenant_id, q.offer_id): q for q in Quota.objects.filter(tenant__in=tenants)}
    bars, weights = standing.bars_of_cluster(actor, cluster, now=now), sharing.weights_of(cluster)
    departments = tenancy.departments_for(actor).filter(cluster=cluster).select_related("parent")
    return Matrix(
        cluster=cluster,
        columns=columns,
        rows=tuple(
            Row(
                tenant=each,
                weight=weights.get(each.pk, sharing.UNWEIGHED),
                cells=tuple(_cells(each, columns, held, bars.get(each.pk, ()))),
            )
            for each in tenants
        ),
        departments=tuple(departments.order_by("name")),
        sentences=sharing.of_cluster(cluster).sentences,
    )


def _columns(cluster: Cluster) -> tuple[Column, ...]:
    supplied = stock.supply(cluster)
    rows = Offer.objects.filter(cluster=cluster, deleted_at=None).order_by("flavor__slug", "gpu_memory_bytes")
    promised: dict[UUID, int] = {}
    alive = Quota.objects.filter(offer__cluster=cluster, tenant__deleted_at=None)
    for pk, nominal in alive.values_list("offer", "nominal_quota"):
        promised[pk] = promised.get(pk, 0) + nominal
    return tuple(Column(row, promised.get(row.pk, 0), supplied.get(row.pk, NOTHING).capacity) for row in rows)


def _cells(
    tenant: Tenant,
    columns: Iterable[Column],
    held: Mapping[tuple[UUID, UUID], Quota],
    bars: Iterable[QuotaBar],
) -> Iterable[Cell]:
    by_offer = {bar.offer.pk: bar for bar in bars}
    for column in columns:
        offer = column.offer
        yield Cell(offer, held.get((tenant.pk, offer.pk)), by_offer.get(offer.pk))
