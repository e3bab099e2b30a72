"""What the pages of one workload show."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import yaml
from django.urls import reverse
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.errors import DomainError
from apps.quotas.catalogue.selectors.price_book import price_at
from apps.quotas.specs import SharingMode
from apps.workloads import policies
from apps.workloads.lifecycle.rules import log_tail
from apps.workloads.lifecycle.services import live
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase
from apps.workloads.status import protection
from apps.workloads.waiting.selectors import waiting
from portal.pages.parts import figures
from portal.pages.team.workloads.workload_forms import typed

PARTS = frozenset({"head", "why", "story", "cost", "events"})
EXTENSION_SECONDS = 2 * 3600
MOST_EVENTS = 50
MOST_LINES = 500


def url(row: Workload) -> str:
    """Where the workload's page is."""
    return reverse("workload", args=[row.tenant.slug, row.pk])


def frame(row: Workload) -> dict[str, Any]:
    """What each of its pages needs."""
    phase = Phase(row.phase)
    hourly = price_at(row.offer, timezone.now(), row.tenant)
    return {
        "workload": row,
        "tenant": row.tenant,
        "phase": phase,
        "spec": row.spec,
        "base": url(row),
        "runs": phase is Phase.RUNNING,
        "waiting": phase is Phase.PENDING,
        "hourly": None if hourly is None else hourly * reading.spec_of(row).devices,
        "live_topics": [f"workload:{row.pk}"],
    }


def page(actor: Actor, row: Workload, *, now: datetime) -> dict[str, Any]:
    """Status, why it waits, its story, its cost, its events."""
    phase = Phase(row.phase)
    return frame(row) | {
        "why": waiting.explanation_for(actor, row, now),
        "steps": reading.story_of(row),
        "nodes": sorted({pod["node"] for pod in row.placement if pod.get("node")}),
        "endpoints": reading.endpoints(row),
        "isolation": SharingMode(row.offer.sharing_mode).isolation,
        "events": reading.events_of(row)[:MOST_EVENTS],
        "troubles": figures.conditions_wrong(row.conditions),
        "protected_until": row.protected_until if phase in (Phase.STARTING, Phase.RUNNING) else None,
        "afterwards": protection.afterwards(reading.spec_of(row)).label.lower(),
        "now": now,
        "may": _may(actor, row, phase),
        "again": _again(row) if phase.is_final and policies.can_submit(actor, row.tenant) else "",
    }


def logs(row: Workload, *, after: str = "") -> dict[str, Any]:
    """Its last lines, or those after a mark; where the cluster does not answer, the page says so."""
    shown = frame(row) | {"lines": [], "mark": after, "most": MOST_LINES, "problem": None, "live_topics": []}
    if not row.placement:
        return shown
    try:
        found = live.logs(row, tail=MOST_LINES).splitlines()
    except DomainError as refusal:
        if after:
            raise
        return shown | {"problem": refusal}
    return shown | {"lines": log_tail.after(found, after), "mark": log_tail.mark(found) or after}


def source(row: Workload) -> dict[str, Any]:
    """Its manifests as YAML."""
    manifests = reading.manifests_of(row)
    return frame(row) | {"manifests": manifests, "source": as_yaml(manifests), "live_topics": []}


def as_yaml(manifests: list[Any]) -> str:
    """Several documents, in the order in which they are applied."""
    return str(yaml.safe_dump_all(manifests, sort_keys=False, allow_unicode=True))


def _again(row: Workload) -> str:
    """Step 3 of a new workload with this one's values typed in, on the offer that was chosen for the next."""
    spec = reading.next_spec(row)
    step = reverse("new-fields", args=[row.tenant.slug, row.kind, spec.offer])
    return f"{step}?{urlencode(typed(row.name, spec))}"


def _may(actor: Actor, row: Workload, phase: Phase) -> dict[str, bool]:
    """Which buttons to show; the services decide again."""
    allowed = policies.can_operate(actor, row) and phase is not Phase.DELETING
    may_stop = policies.can_stop(actor, row) and phase is not Phase.DELETING
    at_rest = phase is Phase.STOPPED or phase.is_final
    is_idle = phase is Phase.RUNNING and bool(row.idle) and row.first_stop == row.idle_stops_at
    return {
        "extend_idle": may_stop and is_idle and bool((row.idle or {}).get("extensions_left")),
        "stop": may_stop and not at_rest and phase is not Phase.STOPPING,
        "resume": allowed and phase is Phase.STOPPED,
        "extend": allowed and phase is Phase.RUNNING and row.stops_at is not None,
        "delete": allowed and at_rest,
    }
