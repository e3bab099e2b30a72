"""The pages of people, departments, members and service accounts: parse, call, present."""

from functools import partial
from uuid import UUID

import yaml
from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts import people as accounts
from apps.accounts.actors import actor_of
from apps.accounts.selectors import person_for
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import acting, live, pages, people, selectors, service_accounts, services
from apps.tenants.forms import (
    AccountForm,
    AccountTokenForm,
    DepartmentForm,
    InviteForm,
    MemberForm,
)
from apps.tenants.models import ServiceAccount, Tenant
from apps.web import form_pages
from apps.web.form_pages import Shown
from apps.web.htmx import redirect_after, render_page

PARTS = frozenset({"rows"})
ACCOUNT_FIELD = "account_%s"
form_page = partial(form_pages.form_page, parts=PARTS)
secret_page = partial(form_pages.secret_page, parts=PARTS)
require_form = require_http_methods(["GET", "HEAD", "POST"])


@require_form
def tenants_page(request: HttpRequest) -> HttpResponse:
    """Every tenant; a POST makes one, in a namespace that was there only after its content was shown."""
    actor = actor_of(request)
    form = acting.tenant_form(actor, request)
    content = acting.content_of(actor, form)
    return form_page(
        request,
        "console/tenants.html",
        lambda: pages.tenants(actor) | {"content": content},
        form=form,
        make=lambda: acting.make_tenant(actor, form, content),
    )


@require_form
def departments_page(request: HttpRequest) -> HttpResponse:
    """Every department; a POST makes one."""
    actor = actor_of(request)
    form = DepartmentForm(request.POST or None)
    return form_page(
        request,
        "console/departments.html",
        lambda: pages.departments(actor),
        form=form,
        make=lambda: acting.make_department(actor, form, timezone.now()),
    )


@require_form
def department_page(request: HttpRequest, department: str) -> HttpResponse:
    """One department: its name and managers; a POST changes them."""
    actor = actor_of(request)
    row = pages.department_of(actor, department)
    form = DepartmentForm(request.POST or None, initial=pages.kept(row))
    return form_page(
        request,
        "console/department.html",
        lambda: pages.department(actor, row),
        form=form,
        make=lambda: acting.change_department(actor, row, form, timezone.now()),
    )


@require_POST
def delete_department(request: HttpRequest, department: str) -> HttpResponse:
    """Ask for the removal of an empty department."""
    actor = actor_of(request)
    pages.require_console(actor)
    row = selectors.department_for(actor, department)
    services.delete_department(actor=actor, department=row, now=timezone.now())
    messages.success(request, f"{row.name} goes.")
    return redirect_after(request, "/console/departments/")


@never_cache
@require_form
def users_page(request: HttpRequest) -> HttpResponse:
    """Everybody; a POST invites somebody and shows the one-time link once."""
    actor = actor_of(request)
    form = InviteForm(request.POST or None)

    def shown() -> Shown:
        return pages.people(actor, request.GET.get("q", ""))

    def made() -> Shown:
        person, text = accounts.invite(actor=actor, wish=form.wish(), now=timezone.now())
        return {"made": person, "link": _link(text), "form": InviteForm()}

    return secret_page(request, "console/users.html", shown, form=form, make=made)


@never_cache
@require_POST
def reset_password(request: HttpRequest, username: str) -> HttpResponse:
    """End a person's password and show the new one-time link once."""
    actor = actor_of(request)
    person = person_for(actor, username)
    text = accounts.reset_password(actor=actor, user=person, now=timezone.now())
    shown = pages.people(actor, "") | {
        "made": person,
        "link": _link(text),
        "form": InviteForm(),
        "is_reset": True,
    }
    return render_page(request, "console/users.html", shown, parts=PARTS)


@require_POST
def set_active(request: HttpRequest, username: str, verb: str) -> HttpResponse:
    """Close an account, or open it again."""
    actor = actor_of(request)
    person = person_for(actor, username)
    people.set_active(actor=actor, user=person, is_active=verb == "enable", now=timezone.now())
    words = "may sign in again" if verb == "enable" else "is signed out everywhere and opens nothing any more"
    messages.success(request, f"{person.shown_name} {words}.")
    return redirect_after(request, "/console/users/")


@require_form
def members_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """Who belongs to a tenant; a POST adds somebody or gives another role."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    form = MemberForm(request.POST or None)
    return form_page(
        request,
        "tenants/members.html",
        lambda: _members(actor, row, member_form=form),
        form=form,
        make=lambda: acting.set_member(actor, row, form, timezone.now()),
    )


@require_POST
def remove_member(request: HttpRequest, tenant: str, username: str) -> HttpResponse:
    """End a membership."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    services.remove_member(actor=actor, tenant=row, username=username, now=timezone.now())
    messages.success(request, f"{username} is no member of {row.name} any more.")
    return redirect_after(request, "/" if username == actor.username else acting.members_url(row))


@require_POST
def add_account(request: HttpRequest, tenant: str) -> HttpResponse:
    """Make a service account."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    service_accounts.require_keeper(actor, row)
    form = AccountForm(request.POST, auto_id=ACCOUNT_FIELD)
    return form_page(
        request,
        "tenants/members.html",
        lambda: _members(actor, row, account_form=form),
        form=form,
        make=lambda: acting.make_account(actor, row, form, timezone.now()),
    )


@never_cache
@require_form
def account_page(request: HttpRequest, tenant: str, account: UUID) -> HttpResponse:
    """A service account's tokens; a POST makes one and shows its text once."""
    actor, now = actor_of(request), timezone.now()
    row, found = _account(request, tenant, account)
    form = AccountTokenForm(request.POST or None)

    def made() -> Shown:
        token, text = service_accounts.create_token(actor=actor, account=found, wish=form.wish(now), now=now)
        return {"made": token, "text": text, "form": AccountTokenForm()}

    return secret_page(
        request, "tenants/account.html", lambda: pages.account(actor, row, found), form=form, make=made
    )


@require_POST
def revoke_account_token(request: HttpRequest, tenant: str, account: UUID, token: UUID) -> HttpResponse:
    """End one token of a service account."""
    row, found = _account(request, tenant, account)
    held = service_accounts.tokens_for(found).filter(pk=token).first()
    if held is None:
        raise NotFound
    service_accounts.revoke_token(actor=actor_of(request), account=found, token=held, now=timezone.now())
    messages.success(request, f"{held.name} opens nothing any more.")
    return redirect_after(request, f"{acting.members_url(row)}{found.pk}/")


@require_POST
def delete_account(request: HttpRequest, tenant: str, account: UUID) -> HttpResponse:
    """End a service account with its tokens."""
    row, found = _account(request, tenant, account)
    service_accounts.delete_account(actor=actor_of(request), account=found, now=timezone.now())
    messages.success(request, f"{found.slug} is gone, and its tokens open nothing any more.")
    return redirect_after(request, acting.members_url(row))


@never_cache
@require_safe
def kubeconfig_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """One's own kubeconfig, without a secret in it."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    text = yaml.safe_dump(live.plugin_kubeconfig(actor, row), sort_keys=False)
    name = f'attachment; filename="kubeconfig-{row.slug}.yaml"'
    return HttpResponse(text, content_type="application/yaml", headers={"Content-Disposition": name})


def _members(actor: Actor, tenant: Tenant, **posted: forms.Form) -> Shown:
    """The page has two forms: the one that was not posted is empty."""
    empty = {"member_form": MemberForm(), "account_form": AccountForm(auto_id=ACCOUNT_FIELD)}
    return {**pages.members(actor, tenant), **empty, **posted}


def _account(request: HttpRequest, tenant: str, account: UUID) -> tuple[Tenant, ServiceAccount]:
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    found = service_accounts.accounts_for(actor).filter(tenant=row, pk=account).first()
    if found is None:
        raise NotFound
    return row, found


def _link(text: str) -> str:
    return f"{settings.CONFIG.url}/invite/{text}/"
