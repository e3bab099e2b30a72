"""What services and the watch wake: a row's id in, one reconcile."""

from celery import shared_task
from django.utils import timezone

from apps.tenants.attestation.services import probing
from apps.tenants.lifecycle.services import reconcile
from apps.tenants.nodes.services import dedication


@shared_task(name="tenants.reconcile_tenant")  # type: ignore[untyped-decorator]
def reconcile_tenant(pk: str) -> None:
    """Bring one tenant into its cluster."""
    reconcile.reconcile_tenant(pk)


@shared_task(name="tenants.reconcile_node")  # type: ignore[untyped-decorator]
def reconcile_node(pk: str) -> None:
    """Bring one node to its tenant, or back."""
    dedication.reconcile_node(pk)


@shared_task(name="tenants.reconcile_department")  # type: ignore[untyped-decorator]
def reconcile_department(pk: str) -> None:
    """Bring one department into its cluster."""
    reconcile.reconcile_department(pk)


@shared_task(name="tenants.attest")  # type: ignore[untyped-decorator]
def attest(pk: str) -> None:
    """Check one tenant's isolation from inside."""
    probing.attest(pk, now=timezone.now())
