"""Who is told of what concerns a tenant's quota and money. Reads only; answers ids of people."""

from uuid import UUID

from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.tenants.models import Department, DepartmentManager, Membership, Tenant
from apps.tenants.specs import Role


def platform() -> list[UUID]:
    """The platform engineers."""
    rows = User.objects.filter(platform_role=PlatformRole.PLATFORM, is_active=True, is_service=False)
    return list(rows.values_list("pk", flat=True))


def managers(department: Department) -> list[UUID]:
    """The managers of a department."""
    rows = DepartmentManager.objects.filter(department=department, user__is_active=True)
    return list(rows.values_list("user", flat=True))


def members(tenant: Tenant, *, role: Role | None = None) -> list[UUID]:
    """The people of a tenant, or those of one role; service accounts read no messages."""
    rows = Membership.objects.filter(tenant=tenant, user__is_active=True, user__is_service=False)
    return list((rows.filter(role=role) if role else rows).values_list("user", flat=True))


def leads(tenant: Tenant) -> list[UUID]:
    """The leads of a tenant."""
    return members(tenant, role=Role.LEAD)


def deciders(tenant: Tenant) -> list[UUID]:
    """Who may decide on what a tenant asks for: its department's managers and the platform engineers."""
    return [*managers(tenant.department), *platform()]
