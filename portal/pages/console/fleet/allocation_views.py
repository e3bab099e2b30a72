"""The console's pages of allocations, and correcting one."""

from functools import partial
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.metering.allocations.selectors import allocations
from apps.metering.billing.services import corrections as billing_corrections
from apps.metering.billing.services.corrections import Wish
from apps.metering.models import Allocation
from portal.pages.console.fleet.correction_forms import CorrectionForm
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import Shown, form_page, preview_page
from portal.pages.parts.htmx import render_page
from portal.pages.team.usage import corrections

TEMPLATE = "console/fleet/allocation.html"


@require_safe
def allocations_page(request: HttpRequest, workload: UUID) -> HttpResponse:
    """The allocations of one workload."""
    shown = corrections.of_workload(actor_of(request), workload, now=timezone.now())
    return render_page(request, "console/fleet/allocations.html", shown)


@require_form
def allocation_page(request: HttpRequest, allocation: UUID) -> HttpResponse:
    """One allocation: a POST tells what a correction would change, and keeps it once confirmed."""
    actor = actor_of(request)
    row = allocations.allocation_for(actor, allocation)
    shown = corrections.of_allocation(actor, row, now=timezone.now())
    form = CorrectionForm(request.POST or None, initial=corrections.typed_of(row))
    if request.method == "POST":
        billing_corrections.require_corrector(actor, row)
        if request.POST.get("confirm") != "yes":
            told = partial(_told, actor, row, form)
            return preview_page(request, TEMPLATE, lambda: shown, form=form, told=told)
    return form_page(request, TEMPLATE, lambda: shown, form=form, make=partial(_keep, request, row, form))


def _told(actor: Actor, row: Allocation, form: CorrectionForm) -> Shown:
    wish, now = _wish(row, form), timezone.now()
    effect = billing_corrections.foretell(actor=actor, allocation=row, wish=wish, now=now)
    return {"asked": wish, "effect": effect}


def _keep(request: HttpRequest, row: Allocation, form: CorrectionForm) -> str:
    wish, now = _wish(row, form), timezone.now()
    billing_corrections.correct_allocation(
        actor=actor_of(request), allocation=row, started_at=wish.started_at, ended_at=wish.ended_at,
        reason=wish.reason, now=now,
    )  # fmt: skip
    messages.success(request, f"Corrected, {now:%H:%M} UTC. The ledger follows within a minute.")
    return request.path


def _wish(row: Allocation, form: CorrectionForm) -> Wish:
    return Wish(*corrections.meant(row, form.cleaned_data), form.cleaned_data["reason"])
