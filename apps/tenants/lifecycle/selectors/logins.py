"""A tenant's registries: who set them and when, and, for the reconcile alone, what is in them. Reads only."""

import json
from dataclasses import dataclass

from django.db.models import QuerySet

from apps import sealing
from apps.errors import NotFound
from apps.tenants.models import RegistryCredential, Tenant
from apps.tenants.specs import RegistryLogin


@dataclass(frozen=True)
class Logins:
    """What could be read, and the registries of which nothing could: their secret key was another one."""

    known: tuple[RegistryLogin, ...] = ()
    unreadable: tuple[str, ...] = ()


def registries_of(tenant: Tenant) -> QuerySet[RegistryCredential]:
    """By name, without what is sealed."""
    return RegistryCredential.objects.filter(tenant=tenant).defer("sealed").order_by("registry")


def registry_of(tenant: Tenant, registry: str) -> RegistryCredential:
    """One of them; raises NotFound."""
    found = registries_of(tenant).select_related("tenant").filter(registry=registry.lower()).first()
    if found is None:
        raise NotFound
    return found


def logins_of(tenant: Tenant) -> Logins:
    """Unsealed, to make the tenant's Secret of. RULE: only the reconcile asks this; no query where there is
    none.
    """
    if not tenant.has_registries:
        return Logins()
    known, unreadable = [], []
    for row in RegistryCredential.objects.filter(tenant=tenant).order_by("registry"):
        try:
            username, password = json.loads(sealing.unseal(row.sealed, sealing.REGISTRY))
        except ValueError:
            unreadable.append(row.registry)
        else:
            known.append(RegistryLogin(row.registry, username, password))
    return Logins(tuple(known), tuple(unreadable))
