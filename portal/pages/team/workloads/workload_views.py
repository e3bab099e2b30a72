"""The pages of a team's workloads: parse, call, present."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of, credential_of
from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.tenants.selectors import tenant_for
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import verbs
from apps.workloads.selectors import rerun
from apps.workloads.selectors.reading import workload_for
from apps.workloads.specs import OpenTo, WorkloadChange
from portal.pages.parts.answers import asked_to, done, require_form, see_other, sent, with_status
from portal.pages.parts.htmx import redirect_after, render_page
from portal.pages.team.members import team_overview
from portal.pages.team.workloads import (
    bulk_stop,
    from_template,
    like,
    new_workload,
    workload_detail,
    workload_list,
)
from portal.pages.team.workloads.act_forms import DeleteForm, ExtendForm, ReasonForm

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
    with request_cache.scope():
        shown = workload_list.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
        answer = render_page(request, "team/workloads/list.html", shown, parts=workload_list.PARTS)
    if "part" not in request.GET:
        # While somebody types: the address without what was left empty, no entry per letter in the history.
        answer["HX-Replace-Url"] = shown["address"]
    return answer


def _create(request: HttpRequest, tenant: str) -> HttpResponse:
    actor, typed = actor_of(request), request.POST
    asked = new_workload.asked(actor, (tenant, typed.get("kind", ""), typed.get("offer", "")), typed)
    made = new_workload.create(request, actor, asked, now=timezone.now())
    return redirect_after(request, made) if isinstance(made, str) else _shown(request, made)


@require_form
def stop_many(request: HttpRequest, tenant: str) -> HttpResponse:
    """What of the chosen stops and what that ends; a POST stops, and shows what each answered."""
    actor, now, form = actor_of(request), timezone.now(), ReasonForm(sent(request))
    team, keys = tenant_for(actor, tenant), (sent(request) or request.GET).getlist("workload")
    if not keys:
        return done(request, "Choose in the list what to stop.", workload_list.url(tenant))
    rows = bulk_stop.chosen(actor, team, keys)
    if request.method == "POST" and form.is_valid():
        shown = bulk_stop.stop(actor, team, rows, reason=form.cleaned_data["reason"], now=now)
    else:
        with request_cache.scope():
            shown = bulk_stop.question(actor, team, rows, now=now) | {"form": form}
    answer = render_page(request, "team/workloads/stop_many.html", shown)
    return with_status(answer, 422 if form.errors else 200)


@require_safe
def new_kind(request: HttpRequest, tenant: str) -> HttpResponse:
    """Step 1: what to run."""
    actor = actor_of(request)
    shown = new_workload.kinds(actor, tenant, now=timezone.now())
    shown["templates"] = from_template.cards(actor, shown["tenant"])
    return render_page(request, "team/workloads/new/kind.html", shown)


@require_safe
def new_offer(request: HttpRequest, tenant: str, kind: str) -> HttpResponse:
    """Step 2: on which offer; the radios' form comes back here and goes on."""
    actor = actor_of(request)
    chosen, alike = request.GET.get("offer", ""), request.GET.get("like", "")
    if chosen and "part" not in request.GET:
        return HttpResponseRedirect(new_workload.fields_url(actor, tenant, kind, chosen, like=alike))
    chosen = chosen or request.GET.get("back", "")
    shown = new_workload.offers(actor, tenant, kind, chosen=chosen, like=alike, now=timezone.now())
    return render_page(request, "team/workloads/new/offer.html", shown, parts=frozenset({"offers"}))


@require_safe
def new_fields(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 3: typed fields; Back from the review brings their values in the query."""
    asked = new_workload.begun(actor_of(request), (tenant, kind, offer), request.GET.dict())
    return render_page(request, "team/workloads/new/fields.html", new_workload.fields(asked))


@require_form
def new_review(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 4: what it would be, what it would cost, and when it would start; stores nothing.

    The form sends its fields in the address, so that Back and reload show it again.
    """
    actor = actor_of(request)
    typed = request.POST if request.method == "POST" else request.GET
    shown = new_workload.review(
        actor, new_workload.asked(actor, (tenant, kind, offer), typed), now=timezone.now()
    )
    if "part" in request.GET:
        return render_page(
            request, "team/workloads/new/fields.html", shown.context, parts=frozenset({"quote"})
        )
    return _shown(request, shown)


@require_safe
def logs_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The last lines it wrote; `pod`: what was kept of it."""
    after, search, pod = (request.GET.get(name, "")[:253] for name in ("after", "q", "pod"))
    shown = workload_detail.logs(_found(request, tenant, workload), after=after, search=search, pod=pod)
    return render_page(request, "team/workloads/logs.html", shown, parts=frozenset({"tail", "head"}))


@require_safe
def log_file(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponseBase:
    """The same as a file, as far back as the cluster gives them, or as they were kept."""
    row, pod = _found(request, tenant, workload), request.GET.get("pod", "")[:253]
    return workload_detail.log_file(credential_of(request), row, pod=pod)


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
        return done(request, asked_to(f"stop {row.name}"), workload_detail.url(row))
    return _with_form(request, "team/workloads/stop.html", row, form)


@require_form
def delete_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost for good; a POST deletes."""
    row, form = _found(request, tenant, workload), DeleteForm(sent(request))
    if request.method == "POST" and form.is_valid():
        keep = form.cleaned_data["keep_volumes"]
        verbs.delete_workload(actor=actor_of(request), workload=row, keep_volumes=keep, now=timezone.now())
        return done(request, asked_to(f"delete {row.name}"), workload_list.url(tenant))
    return _with_form(request, "team/workloads/delete.html", row, form)


@require_POST
def resume(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Start again; who wants to be inside goes on waiting for that."""
    row = _found(request, tenant, workload)
    verbs.resume_workload(actor=actor_of(request), workload=row, reason="", now=timezone.now())
    is_opened = request.POST.get("then") == "open"
    after = workload_detail.opening_url(row) if is_opened else workload_detail.url(row)
    return done(request, asked_to(f"start {row.name} again"), after)


@require_safe
def duplicate(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The form of a new workload, filled in like this one."""
    row = _found(request, tenant, workload)
    writing.require_submit(actor_of(request), row.tenant)
    return see_other(like.start(row))


@require_POST
def rerun_failed(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """A new array of the items that did not end well; its page is shown."""
    actor, row = actor_of(request), _found(request, tenant, workload)
    writing.require_submit(actor, row.tenant)
    asked = rerun.request_of(row)
    made = verbs.submit_workload(actor=actor, tenant=row.tenant, request=asked, now=timezone.now())
    return done(request, asked_to(f"run the failed items of {row.name} again"), workload_detail.url(made))


@require_POST
def extend(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Move the end of its lease."""
    row, form = _found(request, tenant, workload), ExtendForm(request.POST)
    seconds = form.cleaned_data["seconds"] if form.is_valid() else workload_detail.EXTENSION_SECONDS
    later = verbs.extend_workload(
        actor=actor_of(request), workload=row, seconds=seconds, reason="", now=timezone.now()
    )
    return done(request, f"{row.name} now stops {later.first_stop:%H:%M}.", workload_detail.url(row))


@require_POST
def share(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Say who opens it: its owner alone, or the team."""
    row = _found(request, tenant, workload)
    choice = request.POST.get("open_to", "")
    spec = workload_detail.shared(row, OpenTo(choice) if choice in set(OpenTo) else OpenTo.OWNER)
    change = WorkloadChange(spec=spec)
    verbs.update_workload(actor=actor_of(request), workload=row, change=change, now=timezone.now())
    return done(request, f"Who opens {row.name} is changed.", workload_detail.url(row))


@require_POST
def move(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Move what waits to an offer that would start it now, at the price that the button named."""
    row, now = _found(request, tenant, workload), timezone.now()
    seen = new_workload.price_of(request.POST.get("seen_hourly", ""))
    offer = request.POST.get("offer", "")
    moved = verbs.move_to_offer(actor=actor_of(request), workload=row, offer=offer, now=now, seen_hourly=seen)
    return done(request, f"{row.name} now asks for {moved.offer.name}.", workload_detail.url(row))


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
