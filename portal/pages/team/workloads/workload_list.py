"""What a tenant's list of workloads shows."""

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.specs import Actor
from apps.tenants.models import Tenant
from apps.web.requests.cursors import instant
from apps.workloads.selectors.reading import workloads_for
from portal.pages.parts import figures
from portal.pages.team.workloads.workload_forms import FilterForm

PARTS = frozenset({"rows"})
PAGE = 50


def url(tenant: str) -> str:
    """Where the list is."""
    return reverse("workloads", args=[tenant])


def page(actor: Actor, tenant: Tenant, filters: FilterForm, *, after: str = "") -> dict[str, Any]:
    """Newest first, fifty at a time; `after` is the creation time that the last page ended with."""
    everything = workloads_for(actor).filter(tenant=tenant)
    wanted = {name: value for name, value in _chosen(filters).items() if value}
    rows = everything.filter(**_conditions(actor, wanted)).order_by("-created_at")
    begin = instant(after)
    found = list((rows.filter(created_at__lt=begin) if begin else rows)[: PAGE + 1])
    shown = found[:PAGE]
    older = {**wanted, "after": shown[-1].created_at.isoformat()} if len(found) > PAGE else {}
    return {
        "tenant": tenant,
        "count": figures.counts(everything),
        "workloads": shown,
        "filters": filters,
        "filtered": bool(wanted),
        "more": f"?{urlencode(older)}" if older else "",
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def _chosen(filters: FilterForm) -> dict[str, str]:
    filters.is_valid()
    return filters.cleaned_data


def _conditions(actor: Actor, wanted: dict[str, str]) -> dict[str, Any]:
    plain = {name: value for name, value in wanted.items() if name in ("phase", "kind")}
    return plain | ({"owner_id": actor.user_id} if wanted.get("owner") == "me" else {})
