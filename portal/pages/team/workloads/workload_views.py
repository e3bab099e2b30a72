"""The pages of a team's workloads: parse, call, present."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.tenants.selectors import tenant_for
from apps.workloads.lifecycle.services import verbs
from apps.workloads.selectors.reading import workload_for
from portal.pages.parts.answers import done, require_form, sent, with_status
from portal.pages.parts.htmx import redirect_after, render_page
from portal.pages.team.members import team_overview
from portal.pages.team.workloads import new_workload, workload_detail, workload_list
from portal.pages.team.workloads.workload_forms import DeleteForm, ExtendForm, FilterForm, ReasonForm

More = Callable[[Actor], dict[str, Any]]


@require_safe
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """A team's quota, members and isolation."""
    actor = actor_of(request)
    shown = team_overview.page(actor, tenant_for(actor, tenant))
    return render_page(request, "team/members/detail.html", shown, parts=team_overview.PARTS)


@require_form
def workloads_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """The list; a POST creates."""
    if request.method == "POST":
        return _create(request, tenant)
    actor = actor_of(request)
    shown = workload_list.page(
        actor, tenant_for(actor, tenant), FilterForm(request.GET), after=request.GET.get("after", "")
    )
    return render_page(request, "team/workloads/list.html", shown, parts=workload_list.PARTS)


def _create(request: HttpRequest, tenant: str) -> HttpResponse:
    actor, typed = actor_of(request), request.POST
    asked = new_workload.asked(actor, (tenant, typed.get("kind", ""), typed.get("offer", "")), typed)
    made = new_workload.create(request, actor, asked, now=timezone.now())
    return redirect_after(request, made) if isinstance(made, str) else _shown(request, made)


@require_safe
def new_kind(request: HttpRequest, tenant: str) -> HttpResponse:
    """Step 1: what to run."""
    shown = new_workload.kinds(actor_of(request), tenant, now=timezone.now())
    return render_page(request, "team/workloads/new_kind.html", shown)


@require_safe
def new_offer(request: HttpRequest, tenant: str, kind: str) -> HttpResponse:
    """Step 2: on which offer; the radios' form comes back here and goes on."""
    actor = actor_of(request)
    chosen = request.GET.get("offer", "")
    if chosen and "part" not in request.GET:
        return HttpResponseRedirect(new_workload.fields_url(actor, tenant, kind, chosen))
    chosen = chosen or request.GET.get("back", "")
    shown = new_workload.offers(actor, tenant, kind, chosen=chosen, now=timezone.now())
    return render_page(request, "team/workloads/new_offer.html", shown, parts=frozenset({"offers"}))


@require_safe
def new_fields(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 3: typed fields; Back from the review brings their values in the query."""
    asked = new_workload.asked(actor_of(request), (tenant, kind, offer), None, initial=request.GET.dict())
    return render_page(request, "team/workloads/new_fields.html", new_workload.fields(asked))


@require_POST
def new_review(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 4: what it would be, what it would cost, and when it would start; stores nothing."""
    actor = actor_of(request)
    shown = new_workload.review(
        actor, new_workload.asked(actor, (tenant, kind, offer), request.POST), now=timezone.now()
    )
    if "part" in request.GET:
        return render_page(
            request, "team/workloads/new_fields.html", shown.context, parts=frozenset({"quote"})
        )
    return _shown(request, shown)


@require_safe
def logs_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The last lines it wrote."""
    shown = workload_detail.logs(_found(request, tenant, workload), after=request.GET.get("after", ""))
    return render_page(request, "team/workloads/logs.html", shown, parts=frozenset({"tail"}))


@require_safe
def yaml_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The objects it is in Kubernetes."""
    return render_page(
        request, "team/workloads/yaml.html", workload_detail.source(_found(request, tenant, workload))
    )


@require_form
def stop_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost and kept; a POST stops."""
    row, form = _found(request, tenant, workload), ReasonForm(sent(request))
    if request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        verbs.stop_workload(actor=actor_of(request), workload=row, reason=reason, now=timezone.now())
        return done(request, f"Stopping {row.name}, asked {timezone.now():%H:%M}.", workload_detail.url(row))
    return _with_form(request, "team/workloads/stop.html", row, form)


@require_form
def delete_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost for good; a POST deletes."""
    row, form = _found(request, tenant, workload), DeleteForm(sent(request))
    if request.method == "POST" and form.is_valid():
        keep = form.cleaned_data["keep_volumes"]
        verbs.delete_workload(actor=actor_of(request), workload=row, keep_volumes=keep, now=timezone.now())
        return done(request, f"Deleting {row.name}, asked {timezone.now():%H:%M}.", workload_list.url(tenant))
    return _with_form(request, "team/workloads/delete.html", row, form)


@require_POST
def resume(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Start again."""
    row = _found(request, tenant, workload)
    verbs.resume_workload(actor=actor_of(request), workload=row, reason="", now=timezone.now())
    return done(
        request, f"Starting {row.name} again, asked {timezone.now():%H:%M}.", workload_detail.url(row)
    )


@require_POST
def extend(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Move the end of its lease."""
    row, form = _found(request, tenant, workload), ExtendForm(request.POST)
    seconds = form.cleaned_data["seconds"] if form.is_valid() else workload_detail.EXTENSION_SECONDS
    later = verbs.extend_workload(
        actor=actor_of(request), workload=row, seconds=seconds, reason="", now=timezone.now()
    )
    return done(request, f"{row.name} now stops {later.stops_at:%H:%M}.", workload_detail.url(row))


def _found(request: HttpRequest, tenant: str, workload: UUID) -> Any:
    """The workload, if the actor sees it there; another tenant's address of it is unknown."""
    return workload_for(actor_of(request), workload, tenant)


def _shown(request: HttpRequest, shown: new_workload.Shown) -> HttpResponse:
    return with_status(render_page(request, shown.template, shown.context), shown.status)


def _with_form(request: HttpRequest, template: str, row: Any, form: Any) -> HttpResponse:
    response = render_page(
        request, template, {**workload_detail.frame(row), "form": form, "failed": bool(form.errors)}
    )
    return with_status(response, 422 if form.errors else 200)
