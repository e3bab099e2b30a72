"""What people answer to findings: who may, how often, and for how long."""

import pytest

from apps.audit.models import AuditEvent
from apps.cluster.objects.conditions import find
from apps.errors import Conflict, Invalid, NotAllowed
from apps.metering.findings.services import auto_stop, lifecycle, responses
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import IdleMode
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.factories import join, make_user
from tests.metering.idle_job import BEGUN, MINUTE, blind, counted, job, messages
from tests.metering.traced import HOUR, NOW, seen

__all__ = ["job"]
pytestmark = pytest.mark.django_db


def test_a_policy_that_stops_at_once_still_gives_five_minutes(cast: Cast, job: Workload) -> None:
    IdlePolicy.objects.create(tenant=cast.vision, mode=IdleMode.STOP)
    for minutes in (0, 10):
        lifecycle.judge_one(job.pk, now=NOW + minutes * MINUTE)
    row = Finding.objects.get()
    assert row.stops_at == NOW + 15 * MINUTE
    with pytest.raises(Conflict):
        responses.extend(actor=as_actor(cast.rosa), finding=row, reason="", now=NOW + 11 * MINUTE)


def test_the_owner_extends_as_often_as_the_policy_says_and_a_lead_beyond(cast: Cast, job: Workload) -> None:
    row, rosa, leon = counted(job), as_actor(cast.rosa), as_actor(cast.leon)
    for _ in range(2):
        row = responses.extend(actor=rosa, finding=row, reason="lunch", now=NOW + 11 * MINUTE)
    assert row.stops_at == NOW + 40 * MINUTE + 4 * HOUR
    job.refresh_from_db()
    assert job.idle_stops_at == row.stops_at
    assert job.idle is not None
    assert job.idle["extensions_left"] == 0
    with pytest.raises(Conflict) as refused:
        responses.extend(actor=rosa, finding=row, reason="", now=NOW + 12 * MINUTE)
    assert refused.value.code == "extension_limit"
    row = responses.extend(actor=leon, finding=row, reason="", now=NOW + 12 * MINUTE)
    assert row.stops_at == NOW + 40 * MINUTE + 6 * HOUR
    assert AuditEvent.objects.filter(action="finding.extend").count() == 3


def test_an_extended_countdown_is_not_shortened_by_judging(cast: Cast, job: Workload) -> None:
    row = responses.extend(actor=as_actor(cast.rosa), finding=counted(job), reason="", now=NOW + 11 * MINUTE)
    lifecycle.judge_one(job.pk, now=NOW + 45 * MINUTE)
    assert auto_stop.stop_due(now=NOW + 45 * MINUTE) == 0
    row.refresh_from_db()
    assert row.stops_at == NOW + 40 * MINUTE + 2 * HOUR


def test_dismissed_stays_dismissed_while_nothing_changes(cast: Cast, job: Workload) -> None:
    row = counted(job)
    responses.dismiss(
        actor=as_actor(cast.leon), finding=row, reason="a rehearsal", until=None, now=NOW + 11 * MINUTE
    )
    for minutes in (12, 60, 120):
        lifecycle.judge_one(job.pk, now=NOW + minutes * MINUTE)
        assert auto_stop.stop_due(now=NOW + minutes * MINUTE) == 0
    row.refresh_from_db()
    job.refresh_from_db()
    assert (row.phase, row.stops_at, row.reason, row.closed_at) == ("Dismissed", None, "a rehearsal", None)
    assert (find(job.badges, "Idle"), job.idle_stops_at) == (None, None)
    assert len(messages("idle.warned")) == 2
    event = AuditEvent.objects.get(action="finding.dismiss")
    assert (event.actor, event.reason) == ("lead", "a rehearsal")


def test_an_answer_with_an_end_is_over_then(cast: Cast, job: Workload) -> None:
    row = counted(job)
    until = NOW + 60 * MINUTE
    responses.snooze(actor=as_actor(cast.leon), finding=row, until=until, reason="", now=NOW + 11 * MINUTE)
    lifecycle.judge_one(job.pk, now=NOW + 30 * MINUTE)
    row.refresh_from_db()
    assert (row.phase, row.stops_at) == ("Snoozed", None)
    lifecycle.judge_one(job.pk, now=NOW + 61 * MINUTE)
    row.refresh_from_db()
    assert (row.phase, row.stops_at) == ("Open", NOW + 91 * MINUTE)


def test_an_owner_dismisses_for_no_longer_than_the_extensions_that_are_left(
    cast: Cast, job: Workload
) -> None:
    row, rosa = counted(job), as_actor(cast.rosa)
    with pytest.raises(Invalid):
        responses.dismiss(
            actor=rosa, finding=row, reason="mine", until=NOW + 24 * HOUR, now=NOW + 11 * MINUTE
        )
    with pytest.raises(Invalid):
        responses.dismiss(actor=rosa, finding=row, reason=" ", until=None, now=NOW + 11 * MINUTE)
    row = responses.dismiss(actor=rosa, finding=row, reason="mine", until=None, now=NOW + 11 * MINUTE)
    assert row.snoozed_until == NOW + 40 * MINUTE + 4 * HOUR
    seen("GPU-1-0", NOW + 4 * HOUR, NOW + 6 * HOUR)
    lifecycle.judge_one(job.pk, now=NOW + 5 * HOUR)
    row.refresh_from_db()
    assert (row.phase, row.extended) == ("Open", 2)
    assert row.stops_at is not None
    with pytest.raises(Conflict):
        responses.dismiss(actor=rosa, finding=row, reason="again", until=None, now=NOW + 5 * HOUR)


def test_others_answer_nothing(cast: Cast, job: Workload) -> None:
    row = counted(job)
    mate = make_user("mate")
    join(cast.vision, mate)
    for actor in map(as_actor, (mate, cast.ann, cast.otto)):
        with pytest.raises(NotAllowed):
            responses.dismiss(actor=actor, finding=row, reason="no", until=None, now=NOW)
        with pytest.raises(NotAllowed):
            responses.stop(actor=actor, finding=row, reason="no", now=NOW)
    with pytest.raises(NotAllowed):
        responses.warn(actor=as_actor(cast.rosa), finding=row, reason="", now=NOW)


def test_a_warning_by_hand_counts_down_whatever_the_policy(cast: Cast, job: Workload) -> None:
    IdlePolicy.objects.create(tenant=cast.vision, mode=IdleMode.TELL)
    lifecycle.judge_one(job.pk, now=NOW)
    row = responses.warn(
        actor=as_actor(cast.petra), finding=Finding.objects.get(), reason="four wait", now=NOW
    )
    assert row.stops_at == NOW + 30 * MINUTE
    lifecycle.judge_one(job.pk, now=NOW + 10 * MINUTE)
    row.refresh_from_db()
    assert row.stops_at == NOW + 30 * MINUTE
    assert auto_stop.stop_due(now=NOW + 31 * MINUTE) == 1


def test_nobody_is_warned_while_telemetry_is_missing(cast: Cast, job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    blind(BEGUN)
    lifecycle.judge_one(job.pk, now=NOW + 20 * MINUTE)
    with pytest.raises(Conflict, match="no SM counter"):
        responses.warn(
            actor=as_actor(cast.petra), finding=Finding.objects.get(), reason="", now=NOW + 20 * MINUTE
        )


def test_a_person_stops_at_once_with_a_reason(cast: Cast, job: Workload) -> None:
    lifecycle.judge_one(job.pk, now=NOW)
    row = Finding.objects.get()
    row = responses.stop(actor=as_actor(cast.petra), finding=row, reason="needed elsewhere", now=NOW)
    job.refresh_from_db()
    assert (row.phase, row.reason, job.suspended) == ("Acted", "needed elsewhere", True)
    with pytest.raises(Conflict):
        responses.stop(actor=as_actor(cast.petra), finding=row, reason="again", now=NOW)
