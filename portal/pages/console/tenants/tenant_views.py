"""The console's page of one tenant: every change shows its effect first and is made by a second press."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts.actors import actor_of
from apps.errors import NotFound
from apps.tenants.lifecycle.services import deletion, tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.workloads.tenants.services import trusting
from portal.pages.console.tenants import tenancy_forms, tenant_detail
from portal.pages.parts.answers import require_form, with_status
from portal.pages.parts.htmx import redirect_after, render_page

VERBS = {
    "archive": (deletion.archive_tenant, "is archived: work is drained, nobody has access."),
    "unarchive": (deletion.unarchive_tenant, "is restored."),
    "approve-deletion": (deletion.approve_deletion, "is deleted when the grace period ends."),
    "withdraw-deletion": (deletion.withdraw_deletion, "stays."),
}


@require_form
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """One tenant; a POST gives it another display name."""
    actor = actor_of(request)
    row = tenant_detail.tenant_of(actor, tenant)
    if request.method != "POST":
        return render_page(
            request, "console/tenants/tenant.html", tenant_detail.page(actor, row), parts=tenant_detail.PARTS
        )
    form = tenancy_forms.NameForm(request.POST)
    if form.is_valid():
        change = TenantChange(name=form.cleaned_data["name"])
        tenancy.update_tenant(actor=actor, tenant=row, change=change, now=timezone.now())
    return redirect_after(request, _url(row.slug))


@require_POST
def change(request: HttpRequest, tenant: str, what: str) -> HttpResponse:
    """Suspension, trust, egress or shell access: the first press shows the effect, `confirm` makes it."""
    actor, now = actor_of(request), timezone.now()
    row = tenant_detail.tenant_of(actor, tenant)
    asked = tenant_detail.change(actor, row, what, request.POST, now=now)
    if asked.wanted is not None and "confirm" in request.POST:
        trusting.update_tenant(actor=actor, tenant=row, change=asked.wanted, now=now)
        messages.success(request, f"{row.name} is changed.")
        return redirect_after(request, _url(row.slug))
    tenancy.require_change(actor, row, asked.wanted)
    shown = {
        "tenant": row,
        "asked": asked,
        "form": asked.form,
        "failed": asked.wanted is None,
        **asked.effects,
    }
    page = render_page(request, "console/tenants/tenant_change.html", shown)
    return with_status(page, 422 if asked.wanted is None else 200)


@require_form
def delete(request: HttpRequest, tenant: str) -> HttpResponse:
    """All that goes, by kind and name; a POST with the slug typed asks for the deletion."""
    actor = actor_of(request)
    row = tenant_detail.tenant_of(actor, tenant)
    tenancy.require_reader_of_removal(actor, row)
    form = tenancy_forms.DeleteForm(row.slug, request.POST or None)
    if request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        deletion.ask_deletion(actor=actor, tenant=row, reason=reason, now=timezone.now())
        return redirect_after(request, _url(row.slug))
    failed = request.method == "POST"
    shown = tenant_detail.removal(row) | {"form": form, "failed": failed}
    page = render_page(request, "console/tenants/tenant_delete.html", shown)
    return with_status(page, 422 if failed else 200)


@require_POST
def act(request: HttpRequest, tenant: str, verb: str) -> HttpResponse:
    """Archive, bring back, approve or take back a deletion."""
    if verb not in VERBS:
        raise NotFound
    actor, (do, words) = actor_of(request), VERBS[verb]
    row = tenant_detail.tenant_of(actor, tenant)
    reason = request.POST.get("reason", "")[:500]
    do(actor=actor, tenant=row, reason=reason, now=timezone.now())
    messages.success(request, f"{row.name} {words}")
    return redirect_after(request, _url(row.slug))


def _url(slug: str) -> str:
    return f"/console/tenants/{slug}/"
