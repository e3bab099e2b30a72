"""What happens after a valid members form: calls the service, answers the next address."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from apps.accounts.selectors import is_username
from apps.accounts.specs import Actor
from apps.errors import Invalid
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant
from apps.tenants.people.services import inviting, registries, service_accounts
from apps.tenants.specs import Role
from portal.pages.parts.answers import link_of
from portal.pages.team.members.member_forms import AccountForm, MemberForm, RegistryForm


def set_member(actor: Actor, tenant: Tenant, form: MemberForm, now: datetime) -> str:
    """Somebody in, or in another role."""
    typed = form.cleaned_data
    role = Role(typed["role"])
    tenancy.set_member(actor=actor, tenant=tenant, username=typed["username"], role=role, now=now)
    return members_url(tenant)


def is_invitation(form: MemberForm) -> bool:
    """Whether the form names somebody by e-mail; a username may have an @ too."""
    typed = form.cleaned_data["username"] if form.is_valid() else ""
    return "@" in typed and not is_username(typed)


def invite(actor: Actor, tenant: Tenant, form: MemberForm, now: datetime) -> dict[str, Any]:
    """What became of the invitation, with the one-time link if an account was made."""
    typed = form.cleaned_data
    role = Role(typed["role"])
    try:
        invited = inviting.invite(actor=actor, tenant=tenant, email=typed["username"], role=role, now=now)
    except Invalid as error:
        raise Invalid([replace(each, pointer="/username") for each in error.problems]) from None
    return {"invited": invited.row, "link": link_of(invited), "member_form": MemberForm()}


def make_account(actor: Actor, tenant: Tenant, form: AccountForm, now: datetime) -> str:
    """A service account; its page is where its tokens are made."""
    typed = form.cleaned_data
    wish = service_accounts.AccountWish(tenant, typed["slug"], "", typed["role"])
    made = service_accounts.create_account(actor=actor, wish=wish, now=now)
    return f"{members_url(tenant)}{made.pk}/"


def set_registry(actor: Actor, tenant: Tenant, form: RegistryForm, now: datetime) -> str:
    """How images of a registry are pulled from now on."""
    registries.set_registry(actor=actor, tenant=tenant, login=form.login(), now=now)
    return f"{members_url(tenant)}#registries"


def members_url(tenant: Tenant) -> str:
    """The tenant's page of members."""
    return f"/t/{tenant.slug}/members/"
