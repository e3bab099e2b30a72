"""The console's page of the sources of telemetry."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.metering.pages import telemetry
from apps.web.htmx import render_page


@require_safe
def telemetry_page(request: HttpRequest) -> HttpResponse:
    """What is wrong, what to do, and what delivers."""
    shown = telemetry.page(actor_of(request), request.GET, now=timezone.now())
    return render_page(request, "console/telemetry.html", shown, parts=telemetry.PARTS)
