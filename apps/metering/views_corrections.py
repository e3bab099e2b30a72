"""The pages of allocations: what a tenant or a workload held, what of it counts, and a better word on it."""

from functools import partial
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.metering import accounting, selectors
from apps.metering.accounting import Wish
from apps.metering.correcting_forms import CorrectionForm
from apps.metering.models import Allocation
from apps.metering.pages import corrections, held
from apps.tenants.selectors import tenant_for
from apps.web.form_pages import Shown, form_page, preview_page
from apps.web.htmx import render_page

TEMPLATE = "console/allocation.html"


@require_safe
def allocations_page(request: HttpRequest, workload: UUID) -> HttpResponse:
    """The allocations of one workload."""
    shown = corrections.of_workload(actor_of(request), workload, now=timezone.now())
    return render_page(request, "console/allocations.html", shown)


@require_safe
def team_allocations_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The same for the tenant that pays for them."""
    shown = corrections.of_team(actor_of(request), tenant, workload, now=timezone.now())
    return render_page(request, "console/allocations.html", shown)


@require_safe
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What a tenant held in a month, what was made with kubectl as well."""
    actor = actor_of(request)
    shown = held.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
    return render_page(request, "metering/allocations.html", shown)


@require_safe
def tenant_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """The same as CSV, all of it."""
    actor = actor_of(request)
    return held.csv_of(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())


@require_http_methods(["GET", "HEAD", "POST"])
def allocation_page(request: HttpRequest, allocation: UUID) -> HttpResponse:
    """One allocation: a POST tells what a correction would change, and keeps it once confirmed."""
    actor = actor_of(request)
    row = selectors.allocation_for(actor, allocation)
    shown = corrections.of_allocation(actor, row, now=timezone.now())
    form = CorrectionForm(request.POST or None, initial=corrections.typed_of(row))
    if request.method == "POST":
        accounting.require_corrector(actor, row)
        if request.POST.get("confirm") != "yes":
            told = partial(_told, actor, row, form)
            return preview_page(request, TEMPLATE, lambda: shown, form=form, told=told)
    return form_page(request, TEMPLATE, lambda: shown, form=form, make=partial(_keep, request, row, form))


def _told(actor: Actor, row: Allocation, form: CorrectionForm) -> Shown:
    wish, now = _wish(row, form), timezone.now()
    effect = accounting.foretell(actor=actor, allocation=row, wish=wish, now=now)
    return {"asked": wish, "effect": effect}


def _keep(request: HttpRequest, row: Allocation, form: CorrectionForm) -> str:
    wish, now = _wish(row, form), timezone.now()
    accounting.correct_allocation(
        actor=actor_of(request), allocation=row, started_at=wish.started_at, ended_at=wish.ended_at,
        reason=wish.reason, now=now,
    )  # fmt: skip
    messages.success(request, f"Corrected, {now:%H:%M} UTC. The ledger follows within a minute.")
    return request.path


def _wish(row: Allocation, form: CorrectionForm) -> Wish:
    return Wish(*corrections.meant(row, form.cleaned_data), form.cleaned_data["reason"])
