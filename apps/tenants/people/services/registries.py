"""A tenant's registries set and removed. What is in them is sealed at once, and told to nobody again."""

import json
import re
from datetime import datetime

from django.db import transaction

from apps import sealing
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.tenants import policies
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import RegistryCredential, Tenant
from apps.tenants.specs import RegistryLogin

MOST_REGISTRIES = 20
LONGEST_USERNAME, LONGEST_PASSWORD = 255, 8192
"""A key of a cloud's registry is a document of some thousand letters."""
_HOST = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[0-9]{1,5})?"
)


@transaction.atomic
def set_registry(*, actor: Actor, tenant: Tenant, login: RegistryLogin, now: datetime) -> RegistryCredential:
    """How the tenant's images of a registry are pulled from now on, in place of what was set before.

    Rule: leads of the tenant and platform engineers. The audit record says who and which registry. Pods that
    are there take it with their next pull.
    """
    require_keeper(actor, tenant)
    registry = _checked(login)
    row = tenancy.locked(tenant)
    tenancy.require_live(row)
    found = RegistryCredential.objects.filter(tenant=row, registry=registry).first()
    if found is None and row.registries.count() >= MOST_REGISTRIES:
        words = f"A tenant has at most {MOST_REGISTRIES} registries: remove one first."
        raise Invalid([FieldProblem("/registry", "out_of_range", words)])
    kept = found or RegistryCredential(tenant=row, registry=registry)
    before = kept.set_by or None
    kept.sealed = sealing.seal(json.dumps([login.username, login.password]), sealing.REGISTRY)
    kept.set_by, kept.set_at = actor.username, now
    kept.save()
    row.has_registries = True
    tenancy.touch(row, "has_registries")
    audit.record(actor, "registry.set", kept, now=now, changes={"set_by": [before, actor.username]})
    return kept


@transaction.atomic
def remove_registry(*, actor: Actor, tenant: Tenant, registry: str, now: datetime) -> None:
    """Forget it; images of that registry that are private cannot be pulled any more. Rule: as setting it."""
    require_keeper(actor, tenant)
    row = tenancy.locked(tenant)
    found = RegistryCredential.objects.filter(tenant=row, registry=registry.lower()).first()
    if found is None:
        raise NotFound
    target = found.audit_target
    found.delete()
    row.has_registries = row.registries.exists()
    tenancy.touch(row, "has_registries")
    audit.record(actor, "registry.remove", target, now=now, changes={"set_by": [found.set_by, None]})


def require_keeper(actor: Actor, tenant: Tenant) -> None:
    """Rule: leads of the tenant and platform engineers; raises NotAllowed."""
    if not policies.can_lead(actor, tenant):
        raise NotAllowed(f"Only a lead of {tenant.slug} or a platform engineer may do this.")


def _checked(login: RegistryLogin) -> str:
    """The registry as it is kept. No refusal repeats what was sent as user or password."""
    registry = login.registry.strip().lower()
    problems = []
    if not _HOST.fullmatch(registry):
        words = "A registry's host, with a port if it has one, such as quay.io."
        problems.append(FieldProblem("/registry", "invalid_value", words))
    for name, value, longest in (
        ("username", login.username, LONGEST_USERNAME),
        ("password", login.password, LONGEST_PASSWORD),
    ):
        if not value or len(value) > longest or ":" in value * (name == "username"):
            words = f"From 1 to {longest} characters{', without a colon' if name == 'username' else ''}."
            problems.append(FieldProblem(f"/{name}", "out_of_range", words))
    if problems:
        raise Invalid(problems)
    return registry
