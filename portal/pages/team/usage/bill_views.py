"""A tenant's bill: the page, its files, and closing a month from it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.cluster import request_cache
from apps.metering.billing.services import statements
from apps.tenants.selectors import tenant_for
from portal.pages.parts.htmx import redirect_after, render_page
from portal.pages.team.usage import bill


@require_safe
@request_cache.scope()
def bill_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """A month in two prices; for htmx the lines of one person."""
    actor, now = actor_of(request), bill.as_of(request.GET, timezone.now())
    shown = bill.page(actor, tenant_for(actor, tenant), request.GET, now=now)
    return render_page(request, "team/usage/bill.html", shown, parts=bill.PARTS)


@require_safe
def bill_file(request: HttpRequest, tenant: str, file: str) -> HttpResponse:
    """Its lines as CSV."""
    found = tenant_for(actor_of(request), tenant)
    return bill.csv_of(found, file, request.GET, now=timezone.now())


@require_POST
def close_month(request: HttpRequest, tenant: str) -> HttpResponse:
    """The statement of the month."""
    actor, now = actor_of(request), timezone.now()
    found = tenant_for(actor, tenant)
    month = bill.asked(request.POST, now)
    made = statements.close_month(actor=actor, tenant=found, month=month, now=now)
    messages.success(request, f"Closed: statement {made.number}, {made.total} {made.currency}.")
    return redirect_after(request, f"/t/{found.slug}/bill/?month={month:%Y-%m}")
