"""From stored samples to verdicts on workloads, and what the periodic slice costs."""

from datetime import timedelta

import pytest

from apps.metering.detector.rules import Finding as Label
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import verdicts
from apps.metering.findings.services import lifecycle
from apps.metering.models import Device, Finding, Judgement, Sample
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from tests.conftest import BuiltFromNow, Cast
from tests.factories import make_offer, make_quota, make_workload
from tests.metering.traced import HOUR, NOW, running, seen

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast: Cast) -> Workload:
    """A job on whole GPUs; idleness counts for it at any hour."""
    offer = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3")
    make_quota(cast.vision, offer, nominal=8)
    row = make_workload(cast.vision, cast.rosa, offer, slug="asr-tune")
    row.kind, row.spec = Kind.JOB, {**row.spec, "kind": "job", "job": {}, "count": 2}
    row.save()
    return row


def test_a_device_that_never_did_anything_is_a_hoarder(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert found.labels == (Label.HOARDER,)
    assert found.is_fresh
    ((begins, ends),) = found.idle
    assert ends == NOW.timestamp()
    assert 3.5 * 3600 < ends - begins <= 5 * 3600
    assert found.devices[0].figures.sm == 0.0


@pytest.mark.both_databases
def test_judging_once_more_builds_no_statement_anew(job: Workload, built_from_now: BuiltFromNow) -> None:
    assert lifecycle.judge_one(job.pk, now=NOW - HOUR) is None
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW, busy=True)
    Workload.objects.update(phase=Phase.RUNNING)
    for _ in range(2):
        lifecycle.judge_one(job.pk, now=NOW)
    built = built_from_now()
    judged = lifecycle.judge_one(job.pk, now=NOW)
    assert judged is not None
    assert judged.labels == (Label.HEALTHY,)
    assert built == []


def test_an_instance_is_joined_by_its_own_uuid(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    running(row, since=NOW - 5 * HOUR, uuid="MIG-7")
    Device.objects.update(uuid="GPU-9", gpu_instance=3, compute_instance=0, instance_uuid="MIG-7-0")
    seen("GPU-9", NOW - 5 * HOUR, NOW, busy=True)
    found = verdicts.judge(row, Policy(), now=NOW)
    assert found is not None
    assert found.is_known
    assert found.idle == ()


def test_without_samples_nothing_is_known(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert (found.labels, found.is_fresh, found.seen_until) == ((Label.UNKNOWN,), False, None)


def test_two_devices_idle_only_together(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR, devices=2)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    seen("GPU-1-1", NOW - 5 * HOUR, NOW, busy=True)
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert (found.labels, found.idle, found.idle_devices) == ((Label.OVERSIZED,), (), 1)


def test_one_device_unseen_leaves_the_whole_open(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR, devices=2)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert found.labels == (Label.UNKNOWN,)


def test_an_exporter_that_fell_silent_or_froze_is_not_fresh(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW - timedelta(minutes=20))
    for minutes, known in ((12, True), (0, False)):
        silent = verdicts.judge(job, Policy(), now=NOW - timedelta(minutes=minutes))
        assert silent is not None
        assert (silent.is_known, silent.is_fresh) == (known, False)
    seen("GPU-1-0", NOW - timedelta(minutes=20), NOW, frozen=True)
    frozen = verdicts.judge(job, Policy(), now=NOW)
    assert frozen is not None
    assert not frozen.is_fresh


@pytest.mark.parametrize(("every", "fresh"), [(1, True), (4, False)])
def test_what_lost_most_of_its_last_hour_is_not_fresh(job: Workload, every: int, *, fresh: bool) -> None:
    """By the step of the source, which its samples tell: not by the gaps of those that survived."""
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    times = list(Sample.objects.filter(ts__gt=NOW - HOUR).order_by("-ts").values_list("ts", flat=True))
    Sample.objects.filter(ts__gt=NOW - HOUR).exclude(ts__in=times[::every]).delete()
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert found.is_fresh is fresh


def test_samples_of_a_slow_source_accuse_nobody(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    Sample.objects.update(seconds=300)
    found = verdicts.judge(job, Policy(), now=NOW)
    assert found is not None
    assert (found.labels, found.is_fresh) == ((Label.UNKNOWN,), False)


def test_what_has_just_begun_is_not_judged(job: Workload) -> None:
    running(job, since=NOW - timedelta(minutes=10))
    seen("GPU-1-0", NOW - timedelta(minutes=10), NOW)
    assert verdicts.judge(job, Policy(), now=NOW) is None
    assert lifecycle.judge_one(job.pk, now=NOW) is None
    assert Judgement.objects.get(workload=job).due_at > NOW
    assert not Finding.objects.exists()


def test_a_short_window_of_its_own_is_judged_as_soon_as_it_is_over(job: Workload) -> None:
    """A policy of two minutes finds in minutes what an hour's finds in hours, and looks as often."""
    begun, policy = NOW - timedelta(minutes=4), {"action": "warn", "for_seconds": 120}
    Workload.objects.filter(pk=job.pk).update(spec={**job.spec, "idle_policy": policy}, idle_by_lead=True)
    running(job, since=begun)
    seen("GPU-1-0", begun, NOW)
    early = begun + timedelta(minutes=1)
    assert lifecycle.judge_one(job.pk, now=early) is None
    # The clock's next tick, half a minute later at the latest, finds it due.
    assert Judgement.objects.get(workload=job).due_at == early + timedelta(seconds=25)
    lifecycle.judge_due(now=NOW)
    found = Finding.objects.get(workload=job)
    assert (found.kind, found.stops_at) == ("hoarder", None)
    assert Judgement.objects.get(workload=job).due_at == NOW + timedelta(seconds=25)


def test_a_slice_judges_what_is_due_and_no_more(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW + HOUR)
    assert lifecycle.judge_due(now=NOW) == 1
    assert lifecycle.judge_due(now=NOW + timedelta(seconds=30)) == 0
    assert lifecycle.judge_due(now=NOW + timedelta(minutes=6)) == 1


def test_a_slice_ends_with_its_time(job: Workload) -> None:
    running(job, since=NOW - 5 * HOUR)
    assert lifecycle.judge_due(now=NOW, budget=-1.0) == 0
    assert not Judgement.objects.exists()


def test_what_cannot_be_judged_keeps_no_other_from_it(
    cast: Cast, job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_workload(cast.vision, cast.rosa, job.offer, slug="other")
    for row, uuid in ((job, "GPU-1"), (other, "GPU-2")):
        running(row, since=NOW - 5 * HOUR, uuid=uuid)
        seen(f"{uuid}-0", NOW - 5 * HOUR, NOW)
    honest = verdicts.judge

    def breaks(row: Workload, policy: Policy, *, now: object) -> object:
        if row.pk == job.pk:
            raise ValueError("a row nobody foresaw")
        return honest(row, policy, now=now)  # type: ignore[arg-type]

    monkeypatch.setattr(verdicts, "judge", breaks)
    assert lifecycle.judge_due(now=NOW) == 2
    assert [row.workload for row in Finding.objects.all()] == [other]


def test_the_queries_of_a_judgement_do_not_grow_with_the_samples(
    job: Workload, django_assert_max_num_queries: object
) -> None:
    running(job, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW)
    lifecycle.judge_one(job.pk, now=NOW - HOUR)
    with django_assert_max_num_queries(40):  # type: ignore[operator]
        lifecycle.judge_one(job.pk, now=NOW)
