"""Asking for a check of a tenant's isolation, and how the last one stands. The check itself is `probing`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, QuerySet
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.reconciling.services import wake
from apps.errors import NotAllowed
from apps.prepared import Prepared
from apps.tenants import policies
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import IsolationAttestation, Tenant
from apps.tenants.specs import ASK_A_LEAD, Verdict

PATIENCE = timedelta(seconds=30)
"""How long a hint may take before the sweep sends another."""


@transaction.atomic
def ask(*, actor: Actor, tenant: Tenant, now: datetime) -> Tenant:
    """Asks for a new check; it follows within seconds. Asking while one is due changes nothing.

    Rule: leads of the tenant and platform engineers.
    """
    if not may_ask(actor, tenant):
        words = f"Only a lead of {tenant.slug} or a platform engineer has its isolation checked."
        raise NotAllowed(words, hint=ASK_A_LEAD)
    row = tenancy.locked(tenant)
    if row.attestation_due_at is None:
        row.attestation_due_at = now
        row.save(update_fields=["attestation_due_at"])
        audit.record(actor, "tenant.attest", row, now=now)
    wake.hint("attestation", str(row.pk))
    return row


def may_ask(actor: Actor, tenant: Tenant) -> bool:
    """Whether the page shows the button."""
    return policies.can_lead(actor, tenant)


def latest(tenant: Tenant) -> IsolationAttestation | None:
    """The newest attestation of a tenant."""
    return IsolationAttestation.objects.filter(tenant=tenant).order_by("-at").first()


def shown(actor: Actor, tenant: Tenant) -> Mapping[str, Any]:
    """Context of the template `team/members/attestation.html`."""
    found = latest(tenant)
    results = [each | {"verdict": Verdict(each["verdict"])} for each in found.results] if found else []
    return {
        "attestation": found,
        "results": results,
        "total": len(results),
        "attestation_due_at": tenant.attestation_due_at,
        "may_attest": may_ask(actor, tenant),
    }


def hint_due() -> None:
    """Wakes the checks that a lost hint or a silent cluster left undone; the oldest hundred at a time."""
    for pk in _OVERDUE(timezone.now() - PATIENCE):
        wake.hint("attestation", str(pk))


def _overdue(since: Any) -> QuerySet[Tenant, UUID]:
    due = Tenant.objects.filter(attestation_due_at__lte=since, deleting_at=None)
    return due.order_by("attestation_due_at").values_list("pk", flat=True)[:100]


_OVERDUE = Prepared(_overdue, DateTimeField())
