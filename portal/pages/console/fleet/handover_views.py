"""The console's page that hands a node over: parse, call, present."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from apps.accounts.actors import actor_of
from portal.pages.console.fleet import handover
from portal.pages.parts.answers import require_form, with_status
from portal.pages.parts.htmx import redirect_after, render_page


@require_form
def handover_page(request: HttpRequest, node: str) -> HttpResponse:
    """A GET with a choice shows what it would do; a POST does it."""
    actor = actor_of(request)
    found = handover.node_of(actor, node)
    form = handover.form_for(actor, found, request.POST or request.GET or None)
    if request.method == "POST" and form.is_valid():
        messages.success(request, handover.act(actor, found, form))
        return redirect_after(request, reverse("console-node", args=[node]))
    page = render_page(request, "console/fleet/handover.html", handover.page(actor, found, form))
    return with_status(page, 422 if form.errors else 200)
