"""The console's page of findings."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.parts.htmx import render_page
from portal.pages.team.usage import finding_pages


@require_safe
def console_page(request: HttpRequest) -> HttpResponse:
    """What is found of everybody's."""
    shown = finding_pages.console(actor_of(request), request.GET, now=timezone.now())
    return render_page(request, "console/fleet/findings.html", shown, parts=finding_pages.PARTS)
