"""A tenant's bill: the page, its files, and closing a month from it; and how a department's budget goes."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.metering import statements
from apps.metering.pages import bill, burn
from apps.quotas import department_views
from apps.quotas.team_pages import department_of
from apps.tenants.selectors import tenant_for
from apps.web.htmx import redirect_after, render_page


@require_safe
def bill_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """A month in two prices."""
    actor = actor_of(request)
    shown = bill.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
    return render_page(request, "metering/bill.html", shown)


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


@require_http_methods(["GET", "HEAD", "POST"])
def department_page(request: HttpRequest, department: str) -> HttpResponse:
    """The page of `apps.quotas`, with the burn-down."""
    file = reverse("console-department-budget-file", args=[department])
    return department_views.budget_page(
        request,
        department,
        more=lambda row: {"burns": burn.of_department(row, now=timezone.now()), "burn_file": file},
    )


@require_safe
def department_file(request: HttpRequest, department: str) -> HttpResponse:
    """The burn-down's figures as CSV."""
    row = department_of(actor_of(request), department)
    return burn.file_of_department(row, now=timezone.now())
