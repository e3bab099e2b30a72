"""A smaller offer at the next start, and the former one again after an out-of-memory."""

from decimal import Decimal
from typing import Any

import pytest

from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.metering.findings.services import lifecycle, resize_rollback, responses
from apps.metering.models import Allocation, Finding, Sample
from apps.metering.specs import FindingKind
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast, as_actor
from tests.factories import make_offer, make_quota
from tests.metering.idle_job import BEGUN, MINUTE, job, messages
from tests.metering.traced import NOW, running, seen

__all__ = ["job"]
pytestmark = pytest.mark.django_db


def test_an_oversized_job_is_given_the_smaller_offer_it_has_and_takes_it_at_its_restart(
    cast: Cast, job: Workload
) -> None:
    small = make_offer(cast.offer.flavor, "h100-3g-40gb", profile="3g.40gb", hourly="1.26")
    small.gpu_memory_bytes, small.share_numerator = 40 * 1024**3, 3
    small.save()
    make_quota(cast.vision, small, nominal=4)
    Sample.objects.all().delete()
    seen(
        "GPU-1-0", BEGUN, NOW, busy=True,
        sm_active=300_000, dram_active=200_000, tensor_active=200_000, memory_used_mib=20_000, smi=95,
    )  # fmt: skip
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get(kind=FindingKind.OVERSIZED)
    assert (row.suggestion["action"], row.suggestion["offer"]) == ("resize", small.slug)
    assert Decimal(row.suggestion["saving_weekly"]) == (Decimal(3) - Decimal("1.26")) * 168
    assert row.stops_at is None
    rosa = as_actor(cast.rosa)
    responses.resize(actor=rosa, finding=row, reason="", now=NOW)
    job.refresh_from_db()
    assert (job.offer.slug, job.next_offer) == ("h100-whole", small)
    verbs.stop_workload(actor=rosa, workload=job, reason="", now=NOW)
    verbs.resume_workload(actor=rosa, workload=job, reason="", now=NOW)
    job.refresh_from_db()
    assert (job.offer, job.spec["offer"], job.next_offer) == (small, small.slug, None)
    assert (job.former_offer and job.former_offer.slug) == "h100-whole"
    assert resize_rollback.step_back_due(now=NOW) == 0


@pytest.fixture
def tight(job: Workload) -> Workload:
    """The job after a resize to a slice that it holds since NOW."""
    small = make_offer(job.offer.flavor, "h100-1g", profile="1g.10gb", hourly="0.42")
    make_quota(job.tenant, small, nominal=4)
    Allocation.objects.update(ended_at=NOW)
    Workload.objects.filter(pk=job.pk).update(
        offer=small, former_offer=job.offer, asked_at=NOW, started_at=NOW
    )
    job.refresh_from_db()
    return job


def pod_with(ended: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"lastState": {"terminated": ended}}]}}


def test_what_the_kernel_killed_after_a_resize_goes_back_at_its_next_start(tight: Workload) -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": f"{NOW + MINUTE:%Y-%m-%dT%H:%M:%SZ}"}
    pod = MirrorObject.objects.create(
        cluster=tight.cluster, kind="Pod", namespace="x", name="p", uid="p", owner_kind="workload",
        owner_id=str(tight.pk), body=pod_with(ended),
    )  # fmt: skip
    assert resize_rollback.step_back_due(now=NOW + 2 * MINUTE) == 1
    tight.refresh_from_db()
    assert (tight.next_offer and tight.next_offer.slug, tight.former_offer) == ("h100-whole", None)
    assert resize_rollback.step_back_due(now=NOW + 3 * MINUTE) == 0
    (words,) = set(messages("finding.found"))
    assert words.endswith("a container was killed for its memory. Its next start takes H100 whole again.")
    assert AuditEvent.objects.get(action="workload.step_back").actor == "system:right-sizing"
    pod.delete()


def test_an_old_death_does_not_count(tight: Workload) -> None:
    ended = {"reason": "OOMKilled", "finishedAt": f"{NOW - MINUTE:%Y-%m-%dT%H:%M:%SZ}"}
    MirrorObject.objects.create(
        cluster=tight.cluster, kind="Pod", namespace="x", name="p", uid="p", owner_kind="workload",
        owner_id=str(tight.pk), body=pod_with(ended),
    )  # fmt: skip
    assert resize_rollback.step_back_due(now=NOW + 2 * MINUTE) == 0


@pytest.mark.parametrize(("used", "back"), [(9_700, 1), (5_000, 0)])
def test_a_job_that_fails_with_its_memory_full_goes_back_and_any_other_does_not(
    tight: Workload, used: int, back: int
) -> None:
    running(tight, since=NOW, uuid="GPU-2")
    seen("GPU-2-0", NOW, NOW + 20 * MINUTE, busy=True, memory_used_mib=used, memory_total_mib=9_984)
    assert resize_rollback.step_back_due(now=NOW + 20 * MINUTE) == 0
    Allocation.objects.filter(workload=tight, ended_at=None).update(ended_at=NOW + 20 * MINUTE)
    Workload.objects.filter(pk=tight.pk).update(phase=Phase.FAILED)
    assert resize_rollback.step_back_due(now=NOW + 21 * MINUTE) == back
    tight.refresh_from_db()
    assert (tight.next_offer is not None) == bool(back)
