"""The page of a tenant's isolation: the last attestation, and the button for another."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.tenants import attesting, selectors
from apps.web.htmx import redirect_after, render_page

PARTS = frozenset({"attestation"})


@require_safe
def isolation(request: HttpRequest, tenant: str) -> HttpResponse:
    """What was checked, when, and how it came out."""
    actor, now = actor_of(request), timezone.now()
    row = selectors.tenant_for(actor, tenant)
    shown = {"tenant": row, "now": now, "live_topics": [f"tenant:{row.slug}"], **attesting.shown(actor, row)}
    return render_page(request, "tenants/isolation.html", shown, parts=PARTS)


@require_POST
def check(request: HttpRequest, tenant: str) -> HttpResponse:
    """Ask for another attestation."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    attesting.ask(actor=actor, tenant=row, now=timezone.now())
    messages.success(request, f"The isolation of {row.name} is being checked.")
    return redirect_after(request, reverse("isolation", args=[row.slug]))
