"""What a tenant held in a month, by workloads and by kubectl: what lines of its bill count. Reads only."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.metering.allocations.selectors import allocations, devices_held
from apps.metering.allocations.selectors.devices_held import Line
from apps.metering.billing.rules.pricing import HOUR
from apps.metering.models import Allocation
from apps.metering.specs import Origin
from apps.quotas.budgets.rules import budget
from apps.tenants.models import Tenant
from apps.web.requests.cursors import page_of
from apps.web.requests.sheets import csv_file
from portal.pages.team.usage import bill
from portal.pages.team.workloads import workload_detail

MOST = 100
NEWEST = "-started_at"
FILTERS = ("origin", "offer", "capacity")
HEAD = ("id", "origin", "workload", "offer", "capacity", "node", "device", "share", "from", "to",
        "device_hours", "attributed_by", "confidence", "core_hours")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line with its hours inside the month, and its workload's address."""

    line: Line
    hours: Fraction
    url: str


@dataclass(frozen=True)
class Asked:
    """`?month=2026-11&origin=kubectl&offer=h100&capacity=spot`: as a line of the bill names what it counts.
    An empty offer is none; what is absent is not asked for.
    """

    month: date
    chosen: dict[str, str]

    @property
    def query(self) -> str:
        """The same as a query."""
        return urlencode({"month": f"{self.month:%Y-%m}", **self.chosen})


def asked(query: QueryDict, now: datetime) -> Asked:
    """What is asked for; an unknown origin is ignored."""
    chosen = {name: str(query[name]) for name in FILTERS if name in query}
    if chosen.get("origin") not in set(Origin):
        chosen.pop("origin", None)
    return Asked(bill.asked(query, now), chosen)


def page(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """A page of them, newest first, and where the next one begins."""
    wanted = asked(query, now)
    found, more = page_of(_chosen(actor, tenant, wanted), NEWEST, MOST, query.get("cursor") or None)
    rows = list(_rows(found, wanted.month, now))
    return {
        "tenant": tenant,
        "month": wanted.month,
        "bill_url": f"{reverse('bill', args=[tenant.slug])}?month={wanted.month:%Y-%m}",
        "origins": _origins(wanted),
        "asked": wanted.chosen,
        "rows": rows,
        "hours": sum((row.hours for row in rows if not row.line.row.is_cores), Fraction(0)),
        "core_hours": sum((row.hours for row in rows if row.line.row.is_cores), Fraction(0)),
        "is_all": more is None and "cursor" not in query,
        "more": more and f"?{wanted.query}&{urlencode({'cursor': more})}",
        "file": f"{reverse('tenant-allocations-file', args=[tenant.slug])}?{wanted.query}",
        "now": now,
    }


def csv_of(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> HttpResponse:
    """All of them, whatever a page holds."""
    wanted = asked(query, now)
    rows = _rows(_all(_chosen(actor, tenant, wanted)), wanted.month, now)
    return csv_file(f"{tenant.slug}-{wanted.month:%Y-%m}-allocations", HEAD, map(_cells, rows))


def _chosen(actor: Actor, tenant: Tenant, wanted: Asked) -> QuerySet[Allocation]:
    rows = allocations.allocations_for(actor).filter(tenant=tenant)
    origin, offer, capacity = (wanted.chosen.get(name) for name in FILTERS)
    rows = devices_held.only(rows, None if origin is None else [origin])
    if offer is not None:
        rows = rows.filter(offer__slug=offer) if offer else rows.filter(offer=None)
    if capacity is not None:
        rows = rows.filter(capacity=capacity)
    return allocations.between(rows, *budget.bounds(wanted.month))


def _all(rows: QuerySet[Allocation]) -> Iterator[Allocation]:
    cursor: str | None = None
    while True:
        found, cursor = page_of(rows, NEWEST, MOST, cursor)
        yield from found
        if cursor is None:
            return


def _rows(found: Iterable[Allocation], month: date, now: datetime) -> Iterator[Row]:
    for each in found:
        line = devices_held.line_of(each)
        hours = line.device_seconds(*budget.bounds(month), now) / HOUR
        work = each.workload if each.workload and each.workload.deleted_at is None else None
        yield Row(line, hours, workload_detail.url(work) if work else "")


def _cells(row: Row) -> Sequence[Any]:
    line, held = row.line, row.line.row
    return (
        held.pk, line.origin, held.workload and held.workload.slug, held.offer and held.offer.slug,
        held.capacity or None, held.node, held.device_uuid or held.device, line.share, *line.interval,
        0.0 if held.is_cores else float(row.hours), line.attribution, line.confidence,
        float(row.hours) if held.is_cores else 0.0,
    )  # fmt: skip


def _origins(wanted: Asked) -> list[tuple[str, str, bool]]:
    """A word, a link and whether it is what is shown: all, and each origin alone."""
    rest = {name: value for name, value in wanted.chosen.items() if name != "origin"}
    shown = wanted.chosen.get("origin")
    choices = [("All", rest, shown is None)]
    choices += [(each.label, {**rest, "origin": str(each)}, shown == each) for each in Origin]
    return [(word, f"?{Asked(wanted.month, query).query}", here) for word, query, here in choices]
