"""What the console says of the whole record: what workers found last, and a check by hand. Reads only."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.audit import selectors, services
from apps.audit.chain import place_in
from apps.audit.specs import tenant_of
from apps.errors import NotFound
from apps.tenants.people.selectors.audit_events import events_for
from apps.web import self_checks
from apps.web.models import SelfCheck
from portal.pages.team.audit import audit_pages
from portal.pages.team.audit.audit_forms import FilterForm

AT_ONCE = 10_000
"""How many events a check by hand looks at before it answers: a third of a second."""
_FIRST = re.compile(r"(\S+)#(\d{1,18}) ")


@dataclass(frozen=True)
class Broken:
    """Where a chain is broken first, and the list from there on back; empty where that event is gone."""

    words: str
    url: str


def page(actor: Actor, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """The record, and whether it was whole when it was last checked. Raises NotFound for who sees not all."""
    _require(actor)
    filters = FilterForm(query, has_tenant=True)
    asked = audit_pages.Asked(actor, query, filters, filters.wanted(actor))
    shown = audit_pages.page(asked, events_for(actor), now=now)
    last = self_checks.last_of(self_checks.AUDIT)
    return shown | {"last": last, "broken": last and _broken(last), "is_late": _is_late(last, now)}


def check(actor: Actor, query: QueryDict) -> dict[str, Any]:
    """A part of a check of all chains. Raises NotFound as the page."""
    _require(actor)
    place = place_in(query.get("cursor", "")[:160])
    found = services.check(place, chain=None, most=AT_ONCE)
    on = found.place and f"?{urlencode({'cursor': str(found.place)})}"
    return {
        "checked": found.links,
        "began": place,
        "ended": found.place,
        "next": on,
        "breaches": [Broken(str(each), _at(each.chain, each.sequence)) for each in found.breaches],
    }


def _require(actor: Actor) -> None:
    if not actor.sees_everything:
        raise NotFound


def _broken(last: SelfCheck) -> Broken | None:
    if not last.breaches:
        return None
    found = _FIRST.match(last.first)
    return Broken(last.first, _at(found[1], int(found[2])) if found else "")


def _at(chain: str, sequence: int) -> str:
    event = selectors.event_at(chain, sequence)
    if event is None:
        return ""
    # The list is newest first: what is broken stands at its top.
    until = event.at + timedelta(seconds=1)
    asked = {"tenant": tenant_of(chain), "until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('console-audit')}?{query}"


def _is_late(last: SelfCheck | None, now: datetime) -> bool:
    return last is not None and now - last.checked_at > 2 * self_checks.EVERY
