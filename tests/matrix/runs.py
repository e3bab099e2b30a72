"""What runs in the scene."""

from datetime import datetime, timedelta
from decimal import Decimal

from apps.accounts.models import User
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import recommendations
from apps.metering.findings.selectors.blocking import Blocked
from apps.metering.findings.selectors.evidence import KeptEvidence, thresholds
from apps.metering.models import Allocation, Finding
from apps.metering.specs import Advised, FindingKind
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from tests import factories
from tests.pages import fleet


def running(tenant: Tenant, user: User, offer: Offer, number: int, now: datetime) -> Workload:
    """A notebook that holds a device, with its allocation and a finding about it."""
    spec = parsing.as_json(parsing.parse(factories.notebook_body(offer.slug)))
    row = factories.make_workload(tenant, user, offer, slug=f"run-of-{user.username}", spec=spec)
    fleet.run(row, ("gpu-01", f"gpu-0-mig-1g10gb-19-{number}"), now=now, started=timedelta(hours=1))
    Allocation.objects.create(
        cluster=tenant.cluster, tenant=tenant, workload=row, offer=offer,
        claim_uid=f"claim-of-{user.username}", node="gpu-01", device=f"gpu-01/{user.username}",
        share_numerator=1, share_denominator=7, started_at=now - timedelta(hours=1),
    )  # fmt: skip
    Finding.objects.create(
        workload=row, tenant=tenant, kind="hoarder", since=now - timedelta(hours=1), created_at=now,
        judged_at=now, confirmed_at=now, stops_at=now + timedelta(minutes=30),
        evidence=_evidence(row, now), blocks=Blocked().as_json(),
        suggestion=recommendations.by_kubectl(FindingKind.HOARDER, Decimal(0), "Stop it.")
        | {"action": Advised.STOP},
    )  # fmt: skip
    return row


def _evidence(row: Workload, now: datetime) -> KeptEvidence:
    return {
        "window": {"from": (now - timedelta(hours=1)).isoformat(), "to": now.isoformat()},
        "thresholds": thresholds(FindingKind.HOARDER, Policy()),
        "figures": {
            "sm_active": 0.0, "gpu_util": None, "tensor_active": None, "dram_active": None,
            "memory_used_mib": 512.0, "power_w": None, "coverage": 1.0,
        },
        "devices": [],
        "idle_seconds": 3600,
        "allocated": "0",
        "chart": f"/api/v1/utilization?workload={row.pk}",
    }  # fmt: skip
