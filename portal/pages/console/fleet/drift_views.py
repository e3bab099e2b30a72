"""The console's pages of drift: parse, call, present."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.cluster.reconciling.selectors import drifts
from apps.cluster.reconciling.services import repairs
from apps.tenants.selectors import tenant_for
from portal.pages.console.fleet import drift_pages
from portal.pages.console.fleet.drift_forms import ReasonForm
from portal.pages.parts.answers import asked_to, done, require_form, sent, with_status
from portal.pages.parts.htmx import render_page


@require_safe
def drift_page(request: HttpRequest) -> HttpResponse:
    """What differs now, what was put back, and when each cluster was last compared."""
    shown = drift_pages.page(actor_of(request), request.GET, now=timezone.now())
    return render_page(request, "console/fleet/drift.html", shown, parts=drift_pages.PARTS)


@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """Ask for a comparison of every cluster."""
    drift_pages.check_all(actor_of(request), now=timezone.now())
    words = f"{asked_to('compare every cluster')} This page says how far that is."
    return done(request, words, reverse("console-drift"))


@require_form
def repair_page(request: HttpRequest, drift: str) -> HttpResponse:
    """What the repair of one object changes; a POST does it."""
    actor, now, form = actor_of(request), timezone.now(), ReasonForm(sent(request))
    row = drifts.drift_for(actor, drift)
    if form.is_valid():
        repairs.repair(actor=actor, drift=row, reason=form.cleaned_data["reason"], now=now)
        return done(request, asked_to(f"put {row} back"), reverse("console-drift"))
    page = drift_pages.preview(actor, row, now=now) | {"form": form}
    return with_status(
        render_page(request, "console/fleet/drift_repair.html", page), 422 if form.errors else 200
    )


@require_form
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What the repair of all that differs of a tenant changes; a POST does it."""
    actor, now, form = actor_of(request), timezone.now(), ReasonForm(sent(request))
    found = tenant_for(actor, tenant)
    shown = drift_pages.preview_tenant(actor, found, now=now)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        rows = repairs.repair_tenant(actor=actor, tenant=found.slug, reason=reason, now=now)
        objects = f"{len(rows)} object{'s' if len(rows) != 1 else ''}"
        return done(request, asked_to(f"put {objects} of {found.name} back"), reverse("console-drift"))
    page = render_page(request, "console/fleet/drift_repair.html", shown | {"form": form})
    return with_status(page, 422 if form.errors else 200)
