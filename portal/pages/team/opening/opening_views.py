"""From "Open" to the workload's own host, and the page that waits in between: parse, call, present."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of, credential_of
from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import access
from apps.workloads.opening.services import openings
from apps.workloads.selectors import reading
from apps.workloads.selectors.reading import workload_for
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import waiting
from portal.pages.parts.answers import see_other
from portal.pages.parts.htmx import render_page
from portal.pages.team.workloads import workload_detail

PARTS = frozenset({"head", "why", "story"})


@require_POST
def open_workload(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Open it in the browser, by a one-time address on its own host; what is not ready is waited for."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    if access.is_awaited(actor, row):
        return see_other(workload_detail.opening_url(row))
    made = openings.open_workload(
        actor=actor, credential=credential_of(request), workload=row, now=timezone.now()
    )
    return see_other(made.url)


@require_safe
def opening_page(request: HttpRequest, workload: UUID) -> HttpResponse:
    """Where a workload's host sends a browser: with a code, to say whose browser it is; without, to wait
    until it opens.
    """
    actor = actor_of(request)
    row = workload_for(actor, workload)
    code = request.GET.get("code", "")
    if not code:
        with request_cache.scope():
            shown = page(actor, row, now=timezone.now())
            return render_page(request, "team/opening/waiting.html", shown, parts=PARTS)
    url = openings.confirm(
        actor=actor,
        credential=credential_of(request),
        workload=row,
        code=code,
        browser=request.GET.get("browser", ""),
        now=timezone.now(),
    )
    return see_other(url)


def page(actor: Actor, row: Workload, *, now: datetime) -> dict[str, Any]:
    """How it stands, for somebody who wants to be inside."""
    refused = access.refusal(actor, row)
    is_awaited, phase = access.is_awaited(actor, row), Phase(row.phase)
    why = waiting.explanation_for(actor, row, now)
    return workload_detail.frame(row) | {
        "refused": None if is_awaited else refused,
        "stopping": phase is Phase.STOPPING,
        "is_coming": is_awaited and phase in workload_detail.COMING,
        "may": workload_detail.may(actor, row),
        "why": None if workload_detail.starts_at_once(row, why, now) else why,
        "steps": reading.story_of(row),
        "now": now,
    }
