"""What differs from kind to kind: what it costs, what it saves, and what it is held against."""

import re
from decimal import Decimal

import pytest
from django.test import Client

from apps.metering.detector.judge import Verdict
from apps.metering.detector.rules import Finding as Label
from apps.metering.findings.rules import messages
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import evidence, recommendations, waste
from apps.metering.findings.selectors.verdicts import DeviceVerdict, Figures, Judged
from apps.metering.findings.services import lifecycle
from apps.metering.models import Allocation, Finding, Sample
from apps.metering.specs import FindingKind
from apps.workloads.models import Workload
from apps.workloads.specs import Kind
from tests.conftest import Cast
from tests.metering.idle_job import BEGUN, job
from tests.metering.traced import HOUR, NOW, seen, summed_up

__all__ = ["job"]
pytestmark = pytest.mark.django_db


def test_what_waits_for_data_wastes_the_part_of_its_time_that_was_no_work(cast: Cast, job: Workload) -> None:
    """Its device is worked by a fifth, and has kernels for a third of the time."""
    Sample.objects.all().delete()
    seen(
        "GPU-1-0", BEGUN, NOW, busy=True,
        sm_active=200_000, dram_active=100_000, tensor_active=100_000, memory_used_mib=60_000, smi=30,
    )  # fmt: skip
    lifecycle.judge_one(job.pk, now=NOW)
    summed_up(job.cluster, NOW)
    row = Finding.objects.get()
    assert row.kind == FindingKind.DATA_STARVED
    assert row.wasted == pytest.approx(Decimal(3 * 5) * Decimal("0.8"), rel=Decimal("0.02"))
    assert row.weekly == Decimal(3 * 168) * Decimal("0.8")
    assert Decimal(row.suggestion["saving_weekly"]) == row.weekly
    client = Client()
    client.force_login(cast.rosa)
    shown = client.get(f"/t/vision/findings/{row.pk}/").content.decode()
    assert "SM and DRAM active at most" in shown
    assert "Idle means" not in shown


def test_what_rests_on_memory_shows_it_in_its_picture(cast: Cast, job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    row, client = Finding.objects.get(), Client()
    client.force_login(cast.rosa)
    for kind, shown in ((FindingKind.HOARDER, set()), (FindingKind.MEMORY_LEAK, {"memory"})):
        Finding.objects.update(kind=kind)
        page = client.get(f"/t/vision/findings/{row.pk}/").content.decode()
        assert set(re.findall(r"[?]span=\w+&amp;series=(\w+)", page)) == shown


def served(job: Workload) -> Judged:
    """A service that was asked in three of its five hours."""
    held = Allocation.objects.get(workload=job)
    idle = (((BEGUN + HOUR).timestamp(), (BEGUN + 3 * HOUR).timestamp()),)
    window = (BEGUN.timestamp(), NOW.timestamp())
    verdict = Verdict("a", (Label.SCALE_TO_ZERO,), idle, 7200.0, None, window)
    device = DeviceVerdict(
        held, verdict, 1.0, 81_559.0, NOW, is_fresh=True, figures=Figures(sm=0.1, work=0.1)
    )
    return Judged((Label.SCALE_TO_ZERO,), (device,), idle)


def test_what_could_scale_to_zero_saves_what_it_idles_and_not_what_it_serves(job: Workload) -> None:
    judged = served(job)
    assert waste.idle_part(judged, NOW) == Decimal("0.4")
    told, _ = recommendations.suggestion(FindingKind.SCALE_TO_ZERO, job, judged, now=NOW)
    assert (told["action"], Decimal(str(told["saving_weekly"]))) == (
        "stop",
        Decimal(3 * 168) * Decimal("0.4"),
    )
    lifecycle.record(job.pk, judged, Policy(), now=NOW)
    summed_up(job.cluster, NOW)
    row = Finding.objects.get()
    assert (row.wasted, row.weekly) == (Decimal(6), Decimal(3 * 168) * Decimal("0.4"))


def test_a_week_of_what_ends_by_itself_is_the_time_that_it_has_left(job: Workload) -> None:
    """The coming week of a workload that ends in 7.6 h is 7.6 h of it, and so is what stopping it saves."""
    Workload.objects.filter(pk=job.pk).update(stops_at=NOW + 7.6 * HOUR)
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get()
    assert row.weekly == Decimal(row.suggestion["saving_weekly"]) == 3 * Decimal("7.6")


def test_a_week_of_what_has_working_hours_is_the_time_within_them(job: Workload) -> None:
    hours = {"days": ["Mon", "Tue", "Fri"], "from": "08:00", "until": "18:00", "time_zone": "UTC"}
    spec = {key: value for key, value in job.spec.items() if key != "job"}
    job.kind, job.spec = Kind.NOTEBOOK, {**spec, "kind": "notebook", "notebook": {"hours": hours}}
    job.save()
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get()
    assert row.weekly == Decimal(row.suggestion["saving_weekly"]) == 3 * 30


def test_findings_of_one_workload_together_take_no_more_than_it_costs(job: Workload) -> None:
    """Half of it is too much, and of its time nine tenths wait: that is not 1.4 times what it costs."""
    held, window = Allocation.objects.get(workload=job), (BEGUN.timestamp(), NOW.timestamp())
    labels = (Label.OVERSIZED, Label.DATA_STARVED)
    verdict = Verdict("a", labels, (), 9000.0, None, window)
    figures = Figures(sm=0.1, work=0.1)
    device = DeviceVerdict(held, verdict, 1.0, 81_559.0, NOW, is_fresh=True, figures=figures)
    lifecycle.record(job.pk, Judged(labels, (device,)), Policy(), now=NOW)
    weekly = dict(Finding.objects.values_list("kind", "weekly"))
    assert weekly == {FindingKind.OVERSIZED: 3 * 84, FindingKind.DATA_STARVED: 3 * 84}
    summed_up(job.cluster, NOW)
    whole = sum(Finding.objects.values_list("wasted", flat=True))
    assert whole == 3 * 5, "all of it did nothing, and is told once"


@pytest.mark.parametrize("kind", FindingKind)
def test_each_kind_says_what_it_is_held_against(kind: FindingKind) -> None:
    told = dict(messages.limits(kind, evidence.thresholds(kind, Policy())))
    assert ("Idle means" in told) is (kind in {*messages.IDLE, FindingKind.SCALE_TO_ZERO})
    assert told.pop("Seen at least") == "50 %"
    assert told, "nothing of its own"


def test_no_process_need_be_missed_for_longer_than_the_policy_allows_idleness() -> None:
    short, long = (evidence.thresholds(FindingKind.ZOMBIE, Policy(idle_seconds=n)) for n in (600, 7200))
    assert (short["no_process_seconds"], long["no_process_seconds"]) == (600, 1800)
