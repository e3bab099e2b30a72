"""What a tenant's list of workloads shows. All that narrows and orders it stands in the address."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.db.models import Case, DateTimeField, F, OrderBy, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Least, Lower
from django.http import QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts import figures, workload_lines
from portal.pages.parts.lazy import skip_of
from portal.pages.team.workloads import workload_detail
from portal.pages.team.workloads.act_forms import Choices, FilterForm

PARTS = frozenset({"rows"})
PAGE = 50
_NEVER = Value(datetime(9999, 1, 1, tzinfo=UTC), DateTimeField())
_ENDS = ("stops_at", "idle_stops_at", "hours_due_at")
_STOPS = Case(
    When(phase=Phase.RUNNING, then=Least(*(Coalesce(end, _NEVER) for end in _ENDS))),
    default=_NEVER,
)
"""As `Workload.first_stop`, of what runs."""
ORDERS: Mapping[str, tuple[str, str | Combinable | OrderBy]] = {
    "": ("Newest first", "-created_at"),
    "oldest": ("Oldest first", "created_at"),
    "name": ("Name", Lower("name")),
    "cost": ("Cost", figures.CHARGED.desc()),
    "waste": ("Waste", F("cost_waste").desc(nulls_last=True)),
    "stop": ("Next stop", _STOPS),
}
SEARCHED = ("name", "slug", "offer__name", "owner__username", "owner__display_name")


def url(tenant: str) -> str:
    """Where the list is."""
    return reverse("workloads", args=[tenant])


def page(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """Fifty at a time; the same few statements however many workloads and members there are."""
    everything = workloads_for(actor).filter(tenant=tenant)
    filters = FilterForm(query, owners=_owners(everything), orders=_orders())
    wanted, skip = filters.chosen, skip_of(query)
    narrowing = {name: value for name, value in wanted.items() if name != "sort"}
    matching = _narrowed(actor, everything, narrowing)
    found = list(_ordered(matching, wanted.get("sort", ""))[skip : skip + PAGE + 1])
    may_stop = partial(workload_detail.may_stop, actor)
    shown = workload_lines.lines(actor, found[:PAGE], now=now, may_stop=may_stop)
    return {
        "tenant": tenant,
        "count": figures.counts(everything),
        "lines": shown,
        "may_stop_any": any(each.may_stop for each in shown),
        "filters": filters,
        "filtered": bool(narrowing),
        "matching": matching.count() if narrowing else None,
        "sort": wanted.get("sort", ""),
        "order": ORDERS[wanted.get("sort", "")][0].lower(),
        "sorts": {key: _query({**wanted, "sort": key}) for key in ORDERS},
        "address": f"{url(tenant.slug)}{_query(wanted)}",
        "before": _query(wanted, skip=max(0, skip - PAGE)) if skip else None,
        "more": _query(wanted, skip=skip + PAGE) if len(found) > PAGE else None,
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def _owners(everything: QuerySet[Workload]) -> Choices:
    names = everything.order_by().values_list("owner__username", "owner__display_name").distinct()
    return sorted(((name, shown or name) for name, shown in names), key=lambda pair: pair[1].lower())


def _orders() -> Choices:
    return [(key, words) for key, (words, _) in ORDERS.items()]


def _narrowed(actor: Actor, rows: QuerySet[Workload], by: Mapping[str, str]) -> QuerySet[Workload]:
    plain: dict[str, Any] = {name: value for name, value in by.items() if name in ("phase", "kind")}
    if owner := by.get("owner"):
        plain |= {"owner_id": actor.user_id} if owner == "me" else {"owner__username": owner}
    for word in by.get("q", "").split():
        rows = rows.filter(Q.create([(f"{field}__icontains", word) for field in SEARCHED], connector=Q.OR))
    return rows.filter(**plain)


def _ordered(rows: QuerySet[Workload], sort: str) -> QuerySet[Workload]:
    """RULE: what is equal in the chosen order stands newest first, so that no row is on two pages."""
    return rows.order_by(ORDERS[sort][1], "-created_at", "pk")


def _query(wanted: Mapping[str, str], *, skip: int = 0) -> str:
    return f"?{urlencode({**wanted, **({'skip': skip} if skip else {})})}"
