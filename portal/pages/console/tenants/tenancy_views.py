"""The console's pages of tenants, departments and people: parse, call, present."""

from functools import partial

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts import people as accounts
from apps.accounts.actors import actor_of
from apps.accounts.selectors import person_for
from apps.tenants import selectors
from apps.tenants.lifecycle.services import tenancy as lifecycle_tenancy
from apps.tenants.people.services import person_access
from portal.pages.console.tenants import tenancy, tenancy_acts
from portal.pages.console.tenants.tenancy_forms import DepartmentForm, InviteForm
from portal.pages.parts import confirm, form_pages
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import Shown
from portal.pages.parts.htmx import redirect_after, render_page

PARTS = frozenset({"rows"})
LONGEST_SEARCH = 200
form_page = partial(form_pages.form_page, parts=PARTS)
secret_page = partial(form_pages.secret_page, parts=PARTS)


@require_form
def tenants_page(request: HttpRequest) -> HttpResponse:
    """Every tenant; a POST makes one, in a namespace that was there only after its content was shown."""
    actor = actor_of(request)
    form = tenancy_acts.tenant_form(actor, request)
    content = tenancy_acts.content_of(actor, form)
    return form_page(
        request,
        "console/tenants/tenants.html",
        lambda: tenancy.tenants(actor) | {"content": content},
        form=form,
        make=lambda: tenancy_acts.make_tenant(actor, form, content),
    )


@require_form
def departments_page(request: HttpRequest) -> HttpResponse:
    """Every department; a POST makes one."""
    actor = actor_of(request)
    form = DepartmentForm(request.POST or None)
    return form_page(
        request,
        "console/tenants/departments.html",
        lambda: tenancy.departments(actor),
        form=form,
        make=lambda: tenancy_acts.make_department(actor, form, timezone.now()),
    )


@require_form
def department_page(request: HttpRequest, department: str) -> HttpResponse:
    """One department: its name and managers; a POST changes them."""
    actor = actor_of(request)
    row = tenancy.department_of(actor, department)
    form = DepartmentForm(request.POST or None, initial=tenancy.kept(row))
    return form_page(
        request,
        "console/tenants/department.html",
        lambda: tenancy.department(actor, row),
        form=form,
        make=lambda: tenancy_acts.change_department(actor, row, form, timezone.now()),
    )


@require_POST
def delete_department(request: HttpRequest, department: str) -> HttpResponse:
    """Ask for the removal of an empty department."""
    actor = actor_of(request)
    tenancy.require_console(actor)
    row = selectors.department_for(actor, department)
    lifecycle_tenancy.delete_department(actor=actor, department=row, now=timezone.now())
    messages.success(request, f"{row.name} goes.")
    return redirect_after(request, "/console/departments/")


@never_cache
@require_form
def users_page(request: HttpRequest) -> HttpResponse:
    """Everybody; a POST invites somebody and shows the one-time link once."""
    actor = actor_of(request)
    form = InviteForm(request.POST or None)

    def shown() -> Shown:
        return tenancy.people(actor, request.GET.get("q", "")[:LONGEST_SEARCH])

    def made() -> Shown:
        person, text = accounts.invite(actor=actor, wish=form.wish(), now=timezone.now())
        return {"made": person, "link": _link(text), "form": InviteForm()}

    return secret_page(request, "console/tenants/users.html", shown, form=form, make=made)


@never_cache
@require_form
def reset_password(request: HttpRequest, username: str) -> HttpResponse:
    """What the end of a password means; a POST ends it and shows the new one-time link once."""
    actor = actor_of(request)
    person = person_for(actor, username)
    if request.method != "POST":
        return confirm.page(request, tenancy.ending(actor, person, "reset"))
    text = accounts.reset_password(actor=actor, user=person, now=timezone.now())
    shown = tenancy.people(actor, "") | {
        "made": person,
        "link": _link(text),
        "form": InviteForm(),
        "is_reset": True,
    }
    return render_page(request, "console/tenants/users.html", shown, parts=PARTS)


@require_form
def disable(request: HttpRequest, username: str) -> HttpResponse:
    """What a closed account means; a POST closes it."""
    if request.method != "POST":
        actor = actor_of(request)
        return confirm.page(request, tenancy.ending(actor, person_for(actor, username), "disable"))
    return _set_active(request, username, "disable")


@require_POST
def enable(request: HttpRequest, username: str) -> HttpResponse:
    """Open an account again."""
    return _set_active(request, username, "enable")


def _set_active(request: HttpRequest, username: str, verb: str) -> HttpResponse:
    actor = actor_of(request)
    person = person_for(actor, username)
    person_access.set_active(actor=actor, user=person, is_active=verb == "enable", now=timezone.now())
    words = "may sign in again" if verb == "enable" else "is signed out everywhere and can no longer sign in"
    messages.success(request, f"{person.shown_name} {words}.")
    return redirect_after(request, "/console/users/")


def _link(text: str) -> str:
    return f"{settings.CONFIG.url}/invite/{text}/"
