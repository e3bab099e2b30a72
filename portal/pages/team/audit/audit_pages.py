"""What the pages of the audit record show: a team's, and with more around it the console's. Reads only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict

from apps.accounts.specs import Actor
from apps.audit import selectors
from apps.audit.models import AuditEvent
from apps.audit.specs import Wanted, tenant_chain
from apps.tenants.models import Tenant
from apps.tenants.people.selectors.audit_events import events_for, reach_of
from apps.web.problems.refusals import BadParameter
from apps.web.requests.cursors import LONGEST, page_of
from portal.pages.team.audit.audit_forms import FilterForm
from portal.pages.team.audit.audit_lines import lines

PARTS = frozenset({"rows"})
PAGE = 50
EXPORT = "/api/v1/audit-events/export"


def team(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """What was done in a tenant: all of it for who decides on it, else what the actor did itself."""
    chain, reach = tenant_chain(tenant.slug), reach_of(actor)
    filters = FilterForm(query, has_tenant=False)
    shown = page(
        Asked(actor, query, filters, filters.wanted(actor, chain)), events_for(actor, reach), now=now
    )
    return shown | {"tenant": tenant, "is_whole": reach.whole is None or chain in reach.whole}


@dataclass(frozen=True)
class Asked:
    """Who asks for which events; `wanted` is None where there is no such tenant."""

    actor: Actor
    query: QueryDict
    filters: FilterForm
    wanted: Wanted | None


def page(asked: Asked, seen: QuerySet[AuditEvent], *, now: datetime) -> dict[str, Any]:
    """Fifty of the events that the actor sees, newest first."""
    wanted, query, filters = asked.wanted, asked.query, asked.filters
    rows = seen.none() if wanted is None else selectors.narrowed(seen, wanted)
    rows, looked_back_to = selectors.searched_lately(rows, wanted.words if wanted else "")
    found, more = _page_of(rows, query.get("cursor", "")[:LONGEST])
    chosen = _sent(filters.chosen)
    return {
        "filters": filters,
        "filtered": bool(chosen),
        "rows": lines(asked.actor, found),
        "looked_back_to": looked_back_to,
        "is_later": "cursor" in query,
        "newest": f"?{urlencode(chosen)}",
        "older": more and f"?{urlencode({**chosen, 'cursor': more})}",
        "exports": _exports(chosen | ({"tenant": wanted.chain.partition(":")[2]} if wanted else {})),
        "now": now,
    }


def _page_of(rows: QuerySet[AuditEvent], cursor: str) -> tuple[list[AuditEvent], str | None]:
    """The page after a cursor; one that is none of ours begins at the newest."""
    try:
        return page_of(rows, "-at", PAGE, cursor or None)
    except BadParameter:
        return page_of(rows, "-at", PAGE, None)


def _sent(chosen: dict[str, Any]) -> dict[str, str]:
    """As it stands in an address."""
    return {
        name: f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else str(value)
        for name, value in chosen.items()
    }


def _exports(chosen: dict[str, str]) -> list[tuple[str, str]]:
    asked = {name: value for name, value in chosen.items() if value}
    return [
        (words, f"{EXPORT}?{urlencode({**asked, 'as': form})}")
        for words, form in (("CSV", "csv"), ("JSON lines", "jsonl"))
    ]
