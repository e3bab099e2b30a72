"""The console's pages of the audit record: parse, call, present."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.console.audit import audit_checks
from portal.pages.parts.htmx import render_page
from portal.pages.team.audit import audit_pages


@require_safe
def audit_page(request: HttpRequest) -> HttpResponse:
    """Everything that was done, and whether the record is whole."""
    shown = audit_checks.page(actor_of(request), request.GET, now=timezone.now())
    return render_page(request, "console/audit/audit.html", shown, parts=audit_pages.PARTS)


@require_safe
def check_page(request: HttpRequest) -> HttpResponse:
    """A check by hand, in parts."""
    return render_page(
        request, "console/audit/check.html", audit_checks.check(actor_of(request), request.GET)
    )
