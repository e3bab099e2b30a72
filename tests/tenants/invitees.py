"""Inviting somebody by mail address, as the suites of it do."""

from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import User
from apps.tenants.models import MemberInvitation, Membership, Tenant
from apps.tenants.people.services import inviting
from apps.tenants.people.services.inviting import Invited
from apps.tenants.specs import Role
from tests.conftest import as_actor

KIM = "kim@lab.example"
ALLOWED = "example.org,lab.example"
"""The domains whose people leads may invite without asking."""


def configured(settings: Settings, **changed: str) -> None:
    """These settings differ from the usual."""
    settings.CONFIG = django_settings.CONFIG.model_copy(update=changed)


def invite(who: User, tenant: Tenant, email: str = KIM, role: Role = Role.MEMBER) -> Invited:
    return inviting.invite(actor=as_actor(who), tenant=tenant, email=email, role=role, now=timezone.now())


def approve(who: User, row: MemberInvitation) -> Invited:
    return inviting.approve(actor=as_actor(who), invitation=row, now=timezone.now())


def has_mail(user: User, email: str) -> User:
    user.email = email
    user.save(update_fields=["email"])
    return user


def role_of(email: str, tenant: Tenant) -> str:
    rows = Membership.objects.filter(tenant=tenant, user__email=email).values_list("role", flat=True)
    return rows.first() or ""
