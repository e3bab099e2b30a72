"""The console's pages of the sources of telemetry, and of a node with what its devices told last."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.console.fleet import node_devices, node_views, telemetry
from portal.pages.parts.htmx import render_page


@require_safe
def telemetry_page(request: HttpRequest) -> HttpResponse:
    """What is wrong, what to do, and what delivers."""
    shown = telemetry.page(actor_of(request), request.GET, now=timezone.now())
    return render_page(request, "console/fleet/telemetry.html", shown, parts=telemetry.PARTS)


@require_safe
def node_page(request: HttpRequest, node: str) -> HttpResponse:
    """The page of the node, with the last sample of each device."""
    now = timezone.now()
    return node_views.node_page(request, node, more=lambda actor: node_devices.page(actor, node, now=now))
