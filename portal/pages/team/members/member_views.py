"""The pages of members and service accounts: parse, call, present."""

from functools import partial
from uuid import UUID

import yaml
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import selectors
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import ServiceAccount, Tenant
from apps.tenants.people.selectors import invitations
from apps.tenants.people.services import inviting, registries, service_accounts
from apps.web.requests.lookups import by_id
from portal.pages.parts import confirm, form_pages
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.form_pages import Shown
from portal.pages.parts.htmx import redirect_after
from portal.pages.team.members import member_acts, team_members
from portal.pages.team.members.member_forms import AccountForm, AccountTokenForm, MemberForm, RegistryForm

PARTS = frozenset({"rows", "invitations"})
ACCOUNT_FIELD, REGISTRY_FIELD = "account_%s", "registry_%s"
form_page = partial(form_pages.form_page, parts=PARTS)
secret_page = partial(form_pages.secret_page, parts=PARTS)


@never_cache
@require_form
def members_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """Who belongs to a tenant; a POST adds somebody, gives another role, or invites an e-mail."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    form = MemberForm(request.POST or None)
    page = partial(form_page, make=lambda: member_acts.set_member(actor, row, form, timezone.now()))
    if member_acts.is_invitation(form):
        page = partial(secret_page, make=lambda: member_acts.invite(actor, row, form, timezone.now()))
    shown = partial(_members, actor, row, member_form=form)
    return page(request, "team/members/members.html", shown, form=form)


@require_POST
def withdraw_invitation(request: HttpRequest, tenant: str, invitation: UUID) -> HttpResponse:
    """Take an invitation back."""
    actor = actor_of(request)
    found = invitations.invitations_for(actor).filter(tenant=selectors.tenant_for(actor, tenant))
    row = by_id(found, invitation)
    inviting.withdraw(actor=actor, invitation=row, now=timezone.now())
    return done(request, f"The invitation of {row.email} is withdrawn.", member_acts.members_url(row.tenant))


@require_form
def remove_member(request: HttpRequest, tenant: str, username: str) -> HttpResponse:
    """What the end of a membership means, and what runs on; a POST ends it."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    if request.method != "POST":
        return confirm.page(request, team_members.leaving(actor, row, username))
    tenancy.remove_member(actor=actor, tenant=row, username=username, now=timezone.now())
    messages.success(request, f"{username} is no member of {row.name} any more.")
    return redirect_after(request, "/" if username == actor.username else member_acts.members_url(row))


@require_POST
def add_account(request: HttpRequest, tenant: str) -> HttpResponse:
    """Make a service account."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    service_accounts.require_keeper(actor, row)
    form = AccountForm(request.POST, auto_id=ACCOUNT_FIELD)
    return form_page(
        request,
        "team/members/members.html",
        lambda: _members(actor, row, account_form=form),
        form=form,
        make=lambda: member_acts.make_account(actor, row, form, timezone.now()),
    )


@require_POST
def set_registry(request: HttpRequest, tenant: str) -> HttpResponse:
    """Set how images of a registry are pulled."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    registries.require_keeper(actor, row)
    form = RegistryForm(request.POST, auto_id=REGISTRY_FIELD)
    return form_page(
        request,
        "team/members/members.html",
        lambda: _members(actor, row, registry_form=form),
        form=form,
        make=lambda: member_acts.set_registry(actor, row, form, timezone.now()),
    )


@require_form
def remove_registry(request: HttpRequest, tenant: str, registry: str) -> HttpResponse:
    """What removing a registry means; a POST removes it."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    question = team_members.without_registry(actor, row, registry)
    if request.method != "POST":
        return confirm.page(request, question)
    registries.remove_registry(actor=actor, tenant=row, registry=registry, now=timezone.now())
    messages.success(request, f"The login of {registry} is removed.")
    return redirect_after(request, f"{member_acts.members_url(row)}#registries")


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
        request,
        "team/members/account.html",
        lambda: team_members.account(actor, row, found),
        form=form,
        make=made,
    )


@require_POST
def revoke_account_token(request: HttpRequest, tenant: str, account: UUID, token: UUID) -> HttpResponse:
    """End one token of a service account."""
    row, found = _account(request, tenant, account)
    held = service_accounts.tokens_for(found).filter(pk=token).first()
    if held is None:
        raise NotFound
    service_accounts.revoke_token(actor=actor_of(request), account=found, token=held, now=timezone.now())
    messages.success(request, f"{held.name} no longer works.")
    return redirect_after(request, f"{member_acts.members_url(row)}{found.pk}/")


@require_form
def delete_account(request: HttpRequest, tenant: str, account: UUID) -> HttpResponse:
    """What the end of a service account means, and what runs on; a POST ends it with its tokens."""
    row, found = _account(request, tenant, account)
    actor = actor_of(request)
    if request.method != "POST":
        return confirm.page(request, team_members.ending(actor, row, found))
    service_accounts.delete_account(actor=actor, account=found, now=timezone.now())
    messages.success(request, f"{found.slug} is gone, and its tokens no longer work.")
    return redirect_after(request, member_acts.members_url(row))


@never_cache
@require_safe
def kubeconfig_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """One's own kubeconfig, without a secret in it."""
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    text = yaml.safe_dump(cluster_reads.plugin_kubeconfig(actor, row), sort_keys=False)
    name = f'attachment; filename="kubeconfig-{row.slug}.yaml"'
    return HttpResponse(text, content_type="application/yaml", headers={"Content-Disposition": name})


def _members(actor: Actor, tenant: Tenant, **posted: forms.Form) -> Shown:
    """The page has three forms: those that were not posted are empty."""
    empty = {
        "member_form": MemberForm(),
        "account_form": AccountForm(auto_id=ACCOUNT_FIELD),
        "registry_form": RegistryForm(auto_id=REGISTRY_FIELD),
    }
    return {**team_members.members(actor, tenant), **empty, **posted}


def _account(request: HttpRequest, tenant: str, account: UUID) -> tuple[Tenant, ServiceAccount]:
    actor = actor_of(request)
    row = selectors.tenant_for(actor, tenant)
    found = service_accounts.accounts_for(actor).filter(tenant=row, pk=account).first()
    if found is None:
        raise NotFound
    return row, found
