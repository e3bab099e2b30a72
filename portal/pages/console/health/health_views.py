"""The console's page of the product's own parts: parse, call, present."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.console.health import health_lines
from portal.pages.parts.htmx import render_page


@require_safe
def health_page(request: HttpRequest) -> HttpResponse:
    """What is wrong and its cure, which processes live, how far behind each part is."""
    context = health_lines.page(actor_of(request), now=timezone.now())
    return render_page(request, "console/health/health.html", context, parts=health_lines.PARTS)
