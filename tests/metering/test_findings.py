"""The life of findings: opened, confirmed, counted down, stopped, resolved; never without telemetry."""

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.audit.models import AuditEvent
from apps.cluster.objects.conditions import find, is_true
from apps.metering import periodic
from apps.metering.findings.services import auto_stop, lifecycle, measuring
from apps.metering.ledger.services import rollup
from apps.metering.models import Allocation, Device, DirtySpan, Finding, IdlePolicy, RollPosition, Sample
from apps.metering.specs import FindingKind, FindingPhase, IdleMode
from apps.notices.models import Notice
from apps.web.streams import events
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import countdown as countdown_of
from apps.workloads.specs import Phase
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.metering.idle_job import BEGUN, MINUTE, blind, counted, job, messages
from tests.metering.traced import HOUR, NOW, seen, summed_up

__all__ = ["job"]
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_a_finding_opens_with_its_evidence_its_money_and_a_suggestion(job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get()
    assert (row.kind, row.phase, row.stops_at, row.confirmed_at) == (FindingKind.HOARDER, "Open", None, None)
    (begins, ends) = row.idle[-1]
    assert ends == NOW.timestamp()
    assert row.wasted == 0, "the ledger has not heard of it yet"
    summed_up(job.cluster, NOW)
    row.refresh_from_db()
    assert row.wasted == (Decimal(3) * Decimal(int(ends - begins)) / 3600).quantize(Decimal("1e-8"))
    assert row.weekly == 3 * 168
    assert row.evidence["figures"]["sm_active"] == 0.0
    assert row.evidence["thresholds"]["idle_seconds"] == 3600
    assert row.evidence["idle_seconds"] == int(ends - begins)
    assert row.suggestion["action"] == "stop"
    assert not Notice.objects.exists()


def test_a_new_finding_costs_its_time_up_to_now_wherever_the_ledger_ends(job: Workload) -> None:
    now = NOW - 90 * timedelta(seconds=1)
    summed_up(job.cluster, now - 6 * MINUTE)
    lifecycle.judge_one(job.pk, now=now)
    rolled = rollup.roll_up(now=now)
    assert RollPosition.objects.get().until == NOW - 5 * MINUTE
    measuring.price_rolled({UUID(pk) for pk in rolled.tenants}, now=now)
    row = Finding.objects.get()
    (begins, ends) = row.idle[-1]
    assert ends > (now - MINUTE).timestamp()
    assert row.wasted == (Decimal(3) * Decimal(int(ends - begins)) / 3600).quantize(Decimal("1e-8"))


def test_pages_are_told_once_findings_cost_what_was_rolled(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed_up(job.cluster, NOW)
    lifecycle.judge_one(job.pk, now=NOW)
    costs: list[Decimal] = []

    def told(*_: object, **__: object) -> None:
        costs.append(Finding.objects.get().wasted)

    monkeypatch.setattr(events, "publish", told)
    monkeypatch.setattr(timezone, "now", lambda: NOW + 6 * MINUTE)
    periodic.roll_up()
    assert costs
    assert min(costs) > 0


def test_it_is_told_and_counted_down_once_it_was_seen_twice(cast: Cast, job: Workload) -> None:
    row = counted(job)
    told = messages("idle.warned")
    assert len(told) == 2
    assert told[0].startswith("asr-tune stops 15:40 UTC: SM active 0 % for ")
    assert told[0].endswith("Extend 2 h (2 left).")
    assert set(Notice.objects.values_list("user", flat=True)) == {cast.rosa.pk, cast.leon.pk}
    job.refresh_from_db()
    assert is_true(job.badges, "Idle")
    assert is_true(job.badges, "Hoarder")
    shown = countdown_of(job, NOW + 11 * MINUTE)
    assert shown is not None
    assert (shown["stops_at"], shown["reason"]) == (row.stops_at, "Idle")
    assert shown["message"] in told[0]
    assert shown["extendable_until"] == NOW + 40 * MINUTE + 4 * HOUR
    assert shown["evidence"]["observed"] == 0.0


def test_the_lease_stays_what_it_was(job: Workload) -> None:
    Workload.objects.filter(pk=job.pk).update(stops_at=NOW + 20 * MINUTE)
    counted(job)
    job.refresh_from_db()
    assert (job.stops_at, job.first_stop) == (NOW + 20 * MINUTE, NOW + 20 * MINUTE)
    shown = countdown_of(job, NOW)
    assert shown is not None
    assert shown["reason"] == "MaxRunTime"


def test_the_ledger_makes_the_idle_time_anew_and_only_what_is_new(job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    marked = DirtySpan.objects.filter(gpu="GPU-1-0").count()
    assert marked > 30
    DirtySpan.objects.all().delete()
    lifecycle.judge_one(job.pk, now=NOW + 10 * MINUTE)
    assert 1 <= DirtySpan.objects.count() <= 3


def test_a_judgement_prices_what_has_reached_another_roll_up(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULE: what the ledger learns of the roll-ups it had reached is priced when the ledger learns it."""
    priced: list[datetime] = []
    price_one = measuring.price_one

    def prices(row: Finding, *, now: datetime) -> None:
        priced.append(now)
        price_one(row, now=now)

    monkeypatch.setattr(measuring, "price_one", prices)
    allocated = []
    for minutes in range(3):
        lifecycle.judge_one(job.pk, now=NOW + minutes * MINUTE)
        allocated.append(Decimal(Finding.objects.get().evidence["allocated"]))
    assert priced == [NOW, NOW + MINUTE]
    assert allocated[1] == allocated[2] > allocated[0] > 0


def test_it_is_resolved_when_it_works_again_and_comes_back_counted(job: Workload) -> None:
    counted(job)
    blind(NOW + 10 * MINUTE)
    seen("GPU-1-0", NOW + 10 * MINUTE, NOW + 60 * MINUTE, busy=True)
    lifecycle.judge_one(job.pk, now=NOW + 60 * MINUTE)
    assert (Finding.objects.get().phase, Finding.objects.get().stops_at) == (FindingPhase.RESOLVED, None)
    job.refresh_from_db()
    assert (find(job.badges, "Idle"), job.idle_stops_at, job.idle) == (None, None, None)
    assert messages("idle.taken_back") == ["asr-tune is not stopped: it is used again."] * 2
    seen("GPU-1-0", NOW + 60 * MINUTE, NOW + 5 * HOUR)
    lifecycle.judge_one(job.pk, now=NOW + 5 * HOUR)
    again = Finding.objects.get(closed_at=None)
    assert again.repeat_count == 1


def test_what_returns_after_thirty_days_is_new(job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    Finding.objects.update(phase="Resolved", closed_at=NOW - timedelta(days=31))
    lifecycle.judge_one(job.pk, now=NOW)
    assert Finding.objects.get(closed_at=None).repeat_count == 0


def test_at_its_end_it_is_stopped_with_reason_audit_and_message(job: Workload) -> None:
    row = counted(job)
    assert auto_stop.stop_due(now=NOW + 39 * MINUTE) == 0
    assert auto_stop.stop_due(now=NOW + 41 * MINUTE) == 1
    job.refresh_from_db()
    row.refresh_from_db()
    assert (job.suspended, job.phase, job.idle_stops_at, job.badges) == (True, Phase.STOPPING, None, [])
    assert (row.phase, row.decided_by, row.closed_at) == ("Acted", "system:idle-policy", NOW + 41 * MINUTE)
    stops = AuditEvent.objects.filter(action__in=["workload.stop", "finding.stop"])
    assert {event.action for event in stops} == {"workload.stop", "finding.stop"}
    assert all("SM active 0 %" in event.reason for event in stops)
    assert [text.split(" after")[0] for text in messages("idle.stopped")] == [
        "asr-tune: stopped 15:41 UTC"
    ] * 2
    assert auto_stop.stop_due(now=NOW + 42 * MINUTE) == 0
    assert len(messages("idle.stopped")) == 2


@pytest.mark.parametrize(("by", "again"), [("the policy", False), ("a lead", True)])
def test_what_was_stopped_for_idleness_is_not_started_by_its_hours(
    cast: Cast, job: Workload, by: str, *, again: bool
) -> None:
    row = counted(job)
    hours = {"days": ["Mon"], "from": "08:00", "until": "18:00", "time_zone": "UTC"}
    block = {"ide": "jupyterlab", "open_to": "owner", "hours": hours}
    spec = {**job.spec, "kind": "notebook", "job": None, "notebook": block}
    Workload.objects.filter(pk=job.pk).update(kind="notebook", spec=spec)
    actor = system_actor(auto_stop.POLICY) if by == "the policy" else as_actor(cast.leon)
    assert auto_stop.stop(auto_stop.locked(row.pk), actor=actor, reason="idle", now=NOW)
    job.refresh_from_db()
    assert (job.suspended, job.hours_due_at is not None) == (True, again)


def test_silence_takes_the_countdown_back(job: Workload) -> None:
    row = counted(job)
    blind(NOW + 12 * MINUTE)
    lifecycle.judge_one(job.pk, now=NOW + 20 * MINUTE)
    row.refresh_from_db()
    job.refresh_from_db()
    assert (row.phase, row.stops_at, job.idle_stops_at) == ("Open", None, None)
    assert "no SM counter" in messages("idle.taken_back")[0]


def test_a_stop_that_is_due_is_not_done_without_telemetry(job: Workload) -> None:
    row = counted(job)
    blind(NOW + 12 * MINUTE)
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    row.refresh_from_db()
    job.refresh_from_db()
    assert (row.stops_at, job.suspended) == (None, False)


def test_a_frozen_exporter_stops_nothing(job: Workload) -> None:
    row = counted(job)
    blind(NOW + 12 * MINUTE)
    seen("GPU-1-0", NOW + 12 * MINUTE, NOW + 45 * MINUTE, frozen=True)
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    row.refresh_from_db()
    assert row.stops_at is None


def test_a_device_that_is_no_longer_known_stops_nothing(job: Workload) -> None:
    counted(job)
    Device.objects.update(uuid="GPU-other")
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    job.refresh_from_db()
    assert not job.suspended
    assert find(job.badges, "TelemetryAvailable")["status"] == "False"  # type: ignore[index]


def test_after_a_gap_the_countdown_begins_anew(job: Workload) -> None:
    row = counted(job)
    Sample.objects.filter(ts__gt=NOW + 12 * MINUTE, ts__lte=NOW + 40 * MINUTE).delete()
    lifecycle.judge_one(job.pk, now=NOW + 30 * MINUTE)
    lifecycle.judge_one(job.pk, now=NOW + 100 * MINUTE)
    row.refresh_from_db()
    assert row.stops_at == NOW + 130 * MINUTE


def test_work_in_the_last_minutes_is_seen(job: Workload) -> None:
    counted(job)
    blind(NOW + 20 * MINUTE)
    seen("GPU-1-0", NOW + 20 * MINUTE, NOW + 45 * MINUTE, busy=True)
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    job.refresh_from_db()
    assert not job.suspended


def test_a_worker_that_is_killed_between_stop_and_record_leaves_nothing_half_done(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = counted(job)

    class Killed(BaseException):
        pass

    def dies(*_args: object, **_given: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(auto_stop, "record", dies)
        with pytest.raises(Killed):
            auto_stop.stop_due(now=NOW + 41 * MINUTE)
    job.refresh_from_db()
    row.refresh_from_db()
    assert (job.suspended, row.phase, row.stops_at) == (False, "Open", NOW + 40 * MINUTE)
    assert messages("idle.stopped") == []
    assert auto_stop.stop_due(now=NOW + 42 * MINUTE) == 1
    assert AuditEvent.objects.filter(action="workload.stop").count() == 1
    assert len(messages("idle.stopped")) == 2


def test_what_somebody_stopped_meanwhile_is_stopped_once(cast: Cast, job: Workload) -> None:
    row = counted(job)
    verbs.stop_workload(actor=as_actor(cast.rosa), workload=job, reason="done", now=NOW + 30 * MINUTE)
    lifecycle.close_ended(now=NOW + 31 * MINUTE)
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    row.refresh_from_db()
    assert (row.phase, row.stops_at) == (FindingPhase.RESOLVED, None)
    assert AuditEvent.objects.filter(action="workload.stop").count() == 1


def test_protected_work_is_never_stopped(job: Workload) -> None:
    row = counted(job)
    job.spec = {**job.spec, "priority": "protected"}
    job.save()
    lifecycle.judge_one(job.pk, now=NOW + 20 * MINUTE)
    row.refresh_from_db()
    assert (row.phase, row.stops_at) == ("Open", None)


@pytest.mark.parametrize("mode", [IdleMode.TELL, IdleMode.ASK])
def test_a_policy_that_only_tells_stops_nothing(cast: Cast, job: Workload, mode: IdleMode) -> None:
    IdlePolicy.objects.create(tenant=cast.vision, mode=mode)
    for minutes in (0, 10, 60):
        lifecycle.judge_one(job.pk, now=NOW + minutes * MINUTE)
    assert Finding.objects.get().stops_at is None
    assert len(messages("finding.found")) == 2
    assert "EUR wasted" in messages("finding.found")[0]
    assert ("Is it still needed?" in messages("finding.found")[0]) == (mode is IdleMode.ASK)


def test_it_says_what_waits_for_what_it_holds(cast: Cast, job: Workload) -> None:
    for slug, count in (("first", 2), ("second", 1)):
        waits = make_workload(cast.speech, cast.otto, job.offer, slug=slug)
        waits.spec = {**waits.spec, "count": count}
        waits.save()
    make_workload(cast.speech, cast.otto, cast.offer, slug="elsewhere")
    lifecycle.judge_one(job.pk, now=NOW)
    assert Finding.objects.get().blocks == {"count": 2, "devices": 3}
    assert lifecycle.blocks_words(Finding.objects.get()) == "keeps 2 workloads waiting, for 3 devices"


def test_a_zombie_is_told_by_its_memory(job: Workload) -> None:
    Sample.objects.filter(ts__gt=BEGUN + HOUR).update(processes=0)
    Sample.objects.filter(ts__lte=BEGUN + HOUR).delete()
    seen("GPU-1-0", BEGUN, BEGUN + HOUR, busy=True)
    lifecycle.judge_one(job.pk, now=NOW)
    assert Finding.objects.get().kind == FindingKind.ZOMBIE
    job.refresh_from_db()
    assert find(job.badges, "Zombie")["message"].endswith("29.3 GiB held")  # type: ignore[index]


def test_idleness_by_another_name_makes_its_ledger_anew(job: Workload) -> None:
    """What the bill says of the same time depends on the name: hoarded, zombie, or work that is none."""
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get()
    Finding.objects.filter(pk=row.pk).update(kind=FindingKind.EVASION)
    DirtySpan.objects.all().delete()
    lifecycle.judge_one(job.pk, now=NOW)
    assert [found.kind for found in Finding.objects.all()] == [FindingKind.HOARDER]
    marks = [at.timestamp() for at in DirtySpan.objects.values_list("starts_at", flat=True)]
    assert min(marks) <= min(begins for begins, _ in row.idle) < max(marks)


def test_devices_that_were_got_anew_since_are_not_judged_by_what_was_before(job: Workload) -> None:
    row = counted(job)
    Allocation.objects.update(ended_at=NOW + 30 * MINUTE)
    assert auto_stop.stop_due(now=NOW + 41 * MINUTE) == 0
    row.refresh_from_db()
    job.refresh_from_db()
    assert (row.stops_at, job.suspended, job.idle_stops_at) == (None, False, None)
