"""The pages on which a notebook gets another size or lease: parse, call, present."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.errors import FieldProblem, Invalid
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import resizing
from apps.workloads.selectors.reading import workload_for
from apps.workloads.waiting.rules.smaller import Smaller
from portal.pages.parts.answers import asked_to, done, require_form, sent, with_status
from portal.pages.parts.htmx import render_page
from portal.pages.team.workloads import size_form, workload_detail
from portal.pages.team.workloads.act_forms import ShrinkForm
from portal.pages.team.workloads.new_workload import Shown, price_of


@require_form
def size_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The form, with what Back from the review brings; a POST changes it."""
    actor, row = actor_of(request), workload_for(actor_of(request), workload, tenant)
    asked = size_form.asked(actor, row, sent(request), request.GET.dict())
    if request.method != "POST":
        return render_page(request, size_form.FIELDS, size_form.fields(asked))
    found = size_form.change(asked, request.POST)
    if isinstance(found, Shown):
        return with_status(render_page(request, found.template, found.context), found.status)
    return done(request, asked_to(f"change {row.name}"), workload_detail.url(row))


@require_POST
def shrink(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Ask for less of the same offer for what waits, at the price that the button named."""
    actor, row = actor_of(request), workload_for(actor_of(request), workload, tenant)
    form, seen = ShrinkForm(request.POST), price_of(request.POST.get("seen_hourly", ""))
    writing.require_operate(actor, row)
    if not form.is_valid():
        raise Invalid([FieldProblem("/spec/count", "invalid_value", "It does not say how many.")])
    to = Smaller(form.cleaned_data["count"], form.cleaned_data["pods"], None)
    resizing.shrink_waiting(actor=actor, workload=row, to=to, now=timezone.now(), seen_hourly=seen)
    return done(request, f"{row.name} now asks for {to.words}.", workload_detail.url(row))


@require_safe
def size_review(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What it would be and cost, and when it would start; keeps nothing."""
    actor, row = actor_of(request), workload_for(actor_of(request), workload, tenant)
    shown = size_form.review(size_form.asked(actor, row, request.GET))
    if "part" in request.GET:
        return render_page(request, size_form.FIELDS, shown.context, parts=frozenset({"quote"}))
    return with_status(render_page(request, shown.template, shown.context), shown.status)
