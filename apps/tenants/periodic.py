"""What the clock starts: the sweep that finds every row no hint has reached, and deletions that are due."""

from celery import shared_task
from django.utils import timezone

from apps.cluster.reconciling.services import sweep
from apps.tenants.attestation.services import attestation_requests
from apps.tenants.lifecycle.services import deletion
from apps.tenants.models import Department, NodeAssignment, Tenant


@shared_task(name="tenants.sweep")  # type: ignore[untyped-decorator]
def sweep_tenancy() -> None:
    """Begin the deletions whose grace is over, and hint the departments and tenants that are due."""
    deletion.begin_due(now=timezone.now())
    sweep.hint_due(Department, "department", timezone.now())
    sweep.hint_due(Tenant, "tenant", timezone.now())
    sweep.hint_due(NodeAssignment, "node", timezone.now())
    attestation_requests.hint_due()
