"""The pages of workloads, of a tenant, and the console's: parse, call, present. `pages` fills them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.tenants.selectors import tenant_for
from apps.web.htmx import redirect_after, render_page
from apps.workloads import arranging, services
from apps.workloads.forms import DeleteForm, ExtendForm, FilterForm, ReasonForm
from apps.workloads.pages import console, detail, home, listing, new, queue, team
from apps.workloads.selectors import workload_for

More = Callable[[Actor], dict[str, Any]]
require_form = require_http_methods(["GET", "HEAD", "POST"])


@require_safe
def home_page(request: HttpRequest) -> HttpResponse:
    """What runs, waits and stops next; what is free now."""
    shown = home.page(actor_of(request), now=timezone.now())
    return render_page(request, "workloads/home.html", shown, parts=home.PARTS)


@require_safe
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """A team's quota, members and isolation."""
    actor = actor_of(request)
    shown = team.page(actor, tenant_for(actor, tenant))
    return render_page(request, "tenants/detail.html", shown, parts=team.PARTS)


@require_form
def workloads_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """The list; a POST creates."""
    if request.method == "POST":
        return _create(request, tenant)
    actor = actor_of(request)
    shown = listing.page(
        actor, tenant_for(actor, tenant), FilterForm(request.GET), after=request.GET.get("after", "")
    )
    return render_page(request, "workloads/list.html", shown, parts=listing.PARTS)


def _create(request: HttpRequest, tenant: str) -> HttpResponse:
    actor, typed = actor_of(request), request.POST
    asked = new.asked(actor, (tenant, typed.get("kind", ""), typed.get("offer", "")), typed)
    made = new.create(request, actor, asked, now=timezone.now())
    return redirect_after(request, made) if isinstance(made, str) else _shown(request, made)


@require_safe
def new_kind(request: HttpRequest, tenant: str) -> HttpResponse:
    """Step 1: what to run."""
    shown = new.kinds(actor_of(request), tenant, now=timezone.now())
    return render_page(request, "workloads/new_kind.html", shown)


@require_safe
def new_offer(request: HttpRequest, tenant: str, kind: str) -> HttpResponse:
    """Step 2: on which offer; the radios' form comes back here and goes on."""
    actor = actor_of(request)
    chosen = request.GET.get("offer", "")
    if chosen and "part" not in request.GET:
        return HttpResponseRedirect(new.fields_url(actor, tenant, kind, chosen))
    chosen = chosen or request.GET.get("back", "")
    shown = new.offers(actor, tenant, kind, chosen=chosen, now=timezone.now())
    return render_page(request, "workloads/new_offer.html", shown, parts=frozenset({"offers"}))


@require_safe
def new_fields(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 3: typed fields; Back from the review brings their values in the query."""
    asked = new.asked(actor_of(request), (tenant, kind, offer), None, initial=request.GET.dict())
    return render_page(request, "workloads/new_fields.html", new.fields(asked))


@require_POST
def new_review(request: HttpRequest, tenant: str, kind: str, offer: str) -> HttpResponse:
    """Step 4: what it would be, cost and start; stores nothing."""
    actor = actor_of(request)
    shown = new.review(actor, new.asked(actor, (tenant, kind, offer), request.POST), now=timezone.now())
    if "part" in request.GET:
        return render_page(request, "workloads/new_fields.html", shown.context, parts=frozenset({"quote"}))
    return _shown(request, shown)


@require_safe
def logs_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The last lines it wrote."""
    shown = detail.logs(_found(request, tenant, workload), after=request.GET.get("after", ""))
    return render_page(request, "workloads/logs.html", shown, parts=frozenset({"tail"}))


@require_safe
def yaml_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The objects it is in Kubernetes."""
    return render_page(request, "workloads/yaml.html", detail.source(_found(request, tenant, workload)))


@require_form
def stop_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost and kept; a POST stops."""
    row, form = _found(request, tenant, workload), ReasonForm(_sent(request))
    if request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        services.stop_workload(actor=actor_of(request), workload=row, reason=reason, now=timezone.now())
        return _done(request, f"Stopping {row.name}, asked {timezone.now():%H:%M}.", detail.url(row))
    return _with_form(request, "workloads/stop.html", row, form)


@require_form
def delete_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """What is lost for good; a POST deletes."""
    row, form = _found(request, tenant, workload), DeleteForm(_sent(request))
    if request.method == "POST" and form.is_valid():
        keep = form.cleaned_data["keep_volumes"]
        services.delete_workload(actor=actor_of(request), workload=row, keep_volumes=keep, now=timezone.now())
        return _done(request, f"Deleting {row.name}, asked {timezone.now():%H:%M}.", listing.url(tenant))
    return _with_form(request, "workloads/delete.html", row, form)


@require_POST
def resume(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Start again."""
    row = _found(request, tenant, workload)
    services.resume_workload(actor=actor_of(request), workload=row, reason="", now=timezone.now())
    return _done(request, f"Starting {row.name} again, asked {timezone.now():%H:%M}.", detail.url(row))


@require_POST
def extend(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Move the end of its lease."""
    row, form = _found(request, tenant, workload), ExtendForm(request.POST)
    seconds = form.cleaned_data["seconds"] if form.is_valid() else detail.EXTENSION_SECONDS
    later = services.extend_workload(
        actor=actor_of(request), workload=row, seconds=seconds, reason="", now=timezone.now()
    )
    return _done(request, f"{row.name} now stops {later.stops_at:%H:%M}.", detail.url(row))


@require_safe
def queue_page(request: HttpRequest) -> HttpResponse:
    """All that waits, why, and who holds it."""
    shown = queue.page(actor_of(request), after=request.GET.get("after", ""), now=timezone.now())
    return render_page(request, "console/queue.html", shown, parts=queue.PARTS)


@require_form
def arrange_page(request: HttpRequest, workload: UUID, arrangement: str) -> HttpResponse:
    """What moving, holding or releasing would change; a POST does it."""
    actor, form = actor_of(request), ReasonForm(_sent(request))
    row, wanted = queue.asked(actor, workload, arrangement)
    shown = queue.confirm(actor, row, wanted) | {"form": form, "failed": bool(form.errors)}
    if request.method == "POST" and form.is_valid():
        asked = {"arrangement": wanted, "reason": form.cleaned_data["reason"], "now": timezone.now()}
        arranging.arrange_workload(actor=actor, workload=row, **asked)
        return _done(request, f"{row.name}: {shown['effect'].sentences[0]}", reverse("console-queue"))
    return _with_status(render_page(request, "console/arrange.html", shown), 422 if form.errors else 200)


@require_safe
def nodes_page(request: HttpRequest) -> HttpResponse:
    """Every node with GPUs."""
    return render_page(request, "console/nodes.html", console.nodes(actor_of(request)), parts=console.PARTS)


@require_safe
def node_page(request: HttpRequest, node: str, more: More = lambda _actor: {}) -> HttpResponse:
    """One node's devices, their layout and holders. `more` is what an app above adds to the page."""
    actor = actor_of(request)
    shown = console.node(actor, node) | more(actor)
    return render_page(request, "console/node.html", shown, parts=console.PARTS)


def _found(request: HttpRequest, tenant: str, workload: UUID) -> Any:
    """The workload, if the actor sees it there; another tenant's address of it is unknown."""
    return workload_for(actor_of(request), workload, tenant)


def _sent(request: HttpRequest) -> QueryDict | None:
    return request.POST if request.method == "POST" else None


def _done(request: HttpRequest, words: str, url: str) -> HttpResponse:
    messages.success(request, words)
    return redirect_after(request, url)


def _shown(request: HttpRequest, shown: new.Shown) -> HttpResponse:
    return _with_status(render_page(request, shown.template, shown.context), shown.status)


def _with_form(request: HttpRequest, template: str, row: Any, form: Any) -> HttpResponse:
    response = render_page(
        request, template, {**detail.frame(row), "form": form, "failed": bool(form.errors)}
    )
    return _with_status(response, 422 if form.errors else 200)


def _with_status(response: HttpResponse, status: int) -> HttpResponse:
    response.status_code = status
    return response
