"""Making a tenant: one act for the page and for REST, with every rule of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid
from apps.tenants.isolation.content import Content
from apps.tenants.lifecycle.services import adoption, isolation_choice, tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Egress, Isolation, Suspend, TrustLevel


@dataclass(frozen=True)
class TenantWish:
    """A tenant to be made. `clusters` None: the department's one. `content` is what lies in the namespace
    that it takes over, `seen` the fingerprint of what was shown of it.
    """

    department: Department
    slug: str = ""
    name: str = ""
    clusters: Sequence[str] | None = None
    trust_level: TrustLevel = TrustLevel.STANDARD
    isolation: Isolation = Isolation.NAMESPACE
    virtual: Mapping[str, Any] | None = None
    suspend: Suspend = Suspend.NONE
    egress: Egress | None = None
    has_shell: bool = False
    content: Content | None = None
    seen: str = ""


@transaction.atomic
def create_tenant(*, actor: Actor, wish: TenantWish, now: datetime) -> Tenant:
    """A new tenant with its isolation, in its own namespace or in one that it takes over.

    Rule: see `services.create_tenant`, `fencing.fence`, `adoption.take_over` and `services.update_tenant`.
    It is on its department's cluster and on no other.
    """
    department = wish.department
    if wish.clusters is not None and list(wish.clusters) != [department.cluster.slug]:
        words = f"A tenant of {department.slug} is on the cluster {department.cluster.slug}."
        raise Invalid([FieldProblem("/spec/clusters", "invalid_value", words)])
    tenant = tenancy.create_tenant(
        actor=actor,
        slug=wish.slug,
        name=wish.name,
        department=department,
        trust_level=wish.trust_level,
        now=now,
    )
    tenant = isolation_choice.fence(
        actor=actor, tenant=tenant, isolation=wish.isolation, virtual=wish.virtual, now=now
    )
    if wish.content is not None:
        tenant = adoption.take_over(actor=actor, tenant=tenant, content=wish.content, seen=wish.seen, now=now)
    change = TenantChange(suspend=wish.suspend, egress=wish.egress, has_shell=wish.has_shell)
    return tenancy.update_tenant(actor=actor, tenant=tenant, change=change, now=now)
