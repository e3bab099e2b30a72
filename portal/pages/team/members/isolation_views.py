"""The page of a tenant's isolation: the last attestation, and the button for another."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.tenants import selectors
from apps.tenants.attestation.services import attestation_requests
from apps.tenants.lifecycle.services import isolation_choice
from portal.pages.parts.answers import require_form
from portal.pages.parts.htmx import redirect_after, render_page

PARTS = frozenset({"attestation"})
_RESTS = {"sleep": "goes to sleep", "wake": "wakes"}


@require_safe
def isolation(request: HttpRequest, tenant: str) -> HttpResponse:
    """What was checked, when, and how it came out."""
    actor, now = actor_of(request), timezone.now()
    row = selectors.tenant_for(actor, tenant)
    shown = {
        "tenant": row, "now": now, "live_topics": [f"tenant:{row.slug}"], "fence": selectors.fence_of(row),
        "may_rest": isolation_choice.may_rest(actor, row), **attestation_requests.shown(actor, row),
    }  # fmt: skip
    return render_page(request, "team/members/isolation.html", shown, parts=PARTS)


@require_form
def rest(request: HttpRequest, tenant: str, verb: str) -> HttpResponse:
    """What sending the virtual cluster to sleep or waking it would do; a POST does it."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    asleep = verb == "sleep"
    shown = {
        "tenant": row,
        "verb": verb,
        "sentences": isolation_choice.effect_of_rest(actor, row, asleep=asleep),
    }
    if request.method == "POST":
        isolation_choice.rest(actor=actor, tenant=row, asleep=asleep, now=timezone.now())
        messages.success(request, f"The virtual cluster of {row.name} {_RESTS[verb]}.")
        return redirect_after(request, reverse("isolation", args=[row.slug]))
    return render_page(request, "team/members/rest.html", shown | {"live_topics": []})


@require_POST
def check(request: HttpRequest, tenant: str) -> HttpResponse:
    """Ask for another attestation."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    attestation_requests.ask(actor=actor, tenant=row, now=timezone.now())
    messages.success(request, f"The isolation of {row.name} is being checked.")
    return redirect_after(request, reverse("isolation", args=[row.slug]))
