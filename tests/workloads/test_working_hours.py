"""Working hours stop and start a notebook; a hand is right until they next change."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed, OfferNotAllowed
from apps.notices.models import Notice
from apps.tenants.models import Membership
from apps.workloads import periodic
from apps.workloads.lifecycle.services import keeping, verbs, working_hours
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.selectors import reading
from apps.workloads.selectors.working_hours import words_of
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange
from apps.workloads.waiting.selectors import places
from portal import rounds
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.workloads.asking import asked, change, submit
from tests.workloads.office import FRIDAY_END, HOUR, HOURS, MONDAY, MONDAY_END, kept, now_of, running, tick

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def by_hand(cast: Cast, row: Workload, act: Any, at: datetime) -> Workload:
    done: Workload = act(actor=as_actor(cast.rosa), workload=row, reason="", now=at)
    return done


def test_it_is_stopped_at_their_end_and_started_when_they_begin(cast: Cast) -> None:
    row = running(cast)
    assert row.hours_due_at == row.hours_stop == row.first_stop == FRIDAY_END
    assert tick(row, FRIDAY_END - timedelta(seconds=1)) == (0, False, FRIDAY_END)
    assert tick(row, FRIDAY_END) == (1, True, MONDAY)
    assert now_of(row).phase == Phase.STOPPING
    assert tick(row, FRIDAY_END + HOUR) == (0, True, MONDAY)
    assert tick(row, MONDAY) == (1, False, MONDAY_END)
    after = now_of(row)
    assert (after.phase, after.asked_at, after.stops_at) == (Phase.PENDING, MONDAY, None)
    told = AuditEvent.objects.filter(target_id=str(row.pk), action__in=["workload.stop", "workload.resume"])
    assert [(event.actor, event.reason) for event in told.order_by("sequence")] == [
        ("system:working-hours", "outside its working hours"),
        ("system:working-hours", "its working hours begin"),
    ]
    lines = WorkloadEvent.objects.filter(workload=row).values_list("message", flat=True)
    assert "system:working-hours stopped it: outside its working hours" in lines


def test_what_waits_is_stopped_too(cast: Cast) -> None:
    row = kept(cast)
    assert tick(row, FRIDAY_END) == (1, True, MONDAY)


def test_setting_hours_does_nothing_at_once(cast: Cast) -> None:
    row = change(cast, submit(cast), notebook={"hours": {**HOURS, "from": "00:00", "until": "06:00"}})
    assert tick(row, NOW) == (0, False, NOW + timedelta(days=2, hours=20))
    assert not now_of(row).hours.hold(NOW)  # type: ignore[union-attr]


def test_they_may_be_set_and_taken_away_while_it_runs(cast: Cast) -> None:
    row = running(cast)
    later = change(cast, row, notebook={"hours": {"until": "20:00"}})
    assert (later.phase, later.hours_due_at) == (Phase.RUNNING, FRIDAY_END + 2 * HOUR)
    event = AuditEvent.objects.get(target_id=str(row.pk), action="workload.update")
    assert "20:00" in str(event.changes)
    none = change(cast, row, notebook={"hours": None})
    assert (none.hours_due_at, words_of(none, NOW)) == (None, "")
    assert tick(row, FRIDAY_END + 3 * HOUR) == (0, False, None)


def test_the_same_hours_again_are_no_change(cast: Cast) -> None:
    row = running(cast)
    assert change(cast, row, notebook={"hours": HOURS}).generation == row.generation


def test_they_may_be_changed_where_the_offer_is_gone(cast: Cast) -> None:
    row = running(cast)
    cast.vision.quotas.all().delete()
    later = change(cast, row, notebook={"hours": {"until": "20:00"}})
    assert later.hours_due_at == FRIDAY_END + 2 * HOUR
    assert change(cast, later, notebook={"hours": None}).hours_due_at is None
    with pytest.raises(OfferNotAllowed):
        change(cast, later, max_run_seconds=73 * 3600)


@pytest.mark.parametrize("wait", [0, 600])
def test_a_longest_wait_beside_them_is_refused(cast: Cast, wait: int) -> None:
    with pytest.raises(Invalid) as refused:
        submit(cast, notebook={"hours": HOURS}, max_wait_seconds=wait)
    assert [each.pointer for each in refused.value.problems] == ["/spec/max_wait_seconds"]


def test_the_release_before_reads_what_is_kept_and_this_one_what_comes_after(cast: Cast) -> None:
    row = submit(cast)
    assert set(row.spec["notebook"]) == {"ide", "open_to"}
    late = {**row.spec, "later": 1, "notebook": {**row.spec["notebook"], "later": {"a": 1}}}
    assert parsing.stored(late) == parsing.stored(row.spec)
    with pytest.raises(Invalid):
        parsing.parse(late)
    job = submit(cast, kind="job", image="a/b:1", slug="job")
    assert parsing.parse(parsing.as_json(reading.spec_of(job))) == reading.spec_of(job)


def test_those_who_wait_are_told_of_their_end_too(cast: Cast) -> None:
    row = running(cast)
    columns = Workload.objects.values(*places.ENDS)
    assert places.known_end(columns.get(pk=row.pk)) == FRIDAY_END
    Workload.objects.filter(pk=row.pk).update(stops_at=NOW + HOUR)
    assert places.known_end(columns.get(pk=row.pk)) == NOW + HOUR
    Workload.objects.filter(pk=row.pk).update(suspended=True, stops_at=None)
    assert places.known_end(columns.get(pk=row.pk)) is None


def test_another_change_leaves_the_next_stop(cast: Cast) -> None:
    row = running(cast)
    Workload.objects.filter(pk=row.pk).update(hours_due_at=FRIDAY_END + HOUR)
    assert change(cast, now_of(row), max_run_seconds=7200).hours_due_at == FRIDAY_END + HOUR


def test_who_stops_it_by_hand_is_right_until_they_begin_anew(cast: Cast) -> None:
    row = running(cast)
    by_hand(cast, row, verbs.stop_workload, NOW + HOUR)
    assert tick(row, NOW + 2 * HOUR) == (0, True, MONDAY)
    assert tick(row, MONDAY) == (1, False, MONDAY_END)


def test_who_starts_it_by_hand_is_right_until_their_next_end(cast: Cast) -> None:
    row = running(cast)
    tick(row, FRIDAY_END)
    by_hand(cast, row, verbs.resume_workload, FRIDAY_END + 2 * HOUR)
    assert tick(row, FRIDAY_END + 3 * HOUR) == (0, False, MONDAY_END)
    assert tick(row, MONDAY) == (0, False, MONDAY_END)
    assert tick(row, MONDAY_END)[:2] == (1, True)


def test_a_hand_counts_also_where_the_stop_was_missed(cast: Cast) -> None:
    row = running(cast)
    by_hand(cast, row, verbs.stop_workload, FRIDAY_END + HOUR)
    by_hand(cast, row, verbs.resume_workload, FRIDAY_END + 2 * HOUR)
    assert tick(row, FRIDAY_END + 3 * HOUR) == (0, False, MONDAY_END)


@pytest.mark.parametrize(
    ("lease", "stops"),
    [
        (FRIDAY_END + 64 * HOUR, (FRIDAY_END + 64 * HOUR, FRIDAY_END + 2 * HOUR)),
        (FRIDAY_END + HOUR, (FRIDAY_END + 2 * HOUR, FRIDAY_END + 2 * HOUR)),
        (FRIDAY_END - HOUR, (FRIDAY_END + HOUR, FRIDAY_END + HOUR)),
        (FRIDAY_END - 3 * HOUR, (FRIDAY_END - HOUR, FRIDAY_END)),
    ],
    ids=["a longest lease", "a lease soon after them", "one soon before", "one long before"],
)
def test_extended_it_runs_so_much_longer_whichever_would_stop_it(
    cast: Cast, lease: datetime, stops: tuple[datetime, datetime]
) -> None:
    row = running(cast)
    Workload.objects.filter(pk=row.pk).update(stops_at=lease)
    first = now_of(row).first_stop
    more = verbs.extend_workload(actor=as_actor(cast.rosa), workload=row, seconds=7200, reason="", now=NOW)
    assert (more.stops_at, more.hours_due_at) == stops
    assert first is not None
    assert more.first_stop == first + 2 * HOUR
    assert more.extended_seconds == (stops[0] - lease).total_seconds()
    assert tick(row, stops[1] - timedelta(seconds=1)) == (0, False, stops[1])
    assert tick(row, stops[1])[:2] == (1, True)


def test_extended_into_their_next_day_it_goes_on(cast: Cast) -> None:
    row = running(cast, days=["Fri", "Sat"])
    verbs.extend_workload(actor=as_actor(cast.rosa), workload=row, seconds=15 * 3600, reason="", now=NOW)
    assert tick(row, FRIDAY_END + 15 * HOUR) == (0, False, FRIDAY_END + 24 * HOUR)


def test_a_lease_that_ends_first_stops_it_and_they_start_it_again(cast: Cast) -> None:
    row = running(cast)
    Workload.objects.filter(pk=row.pk).update(stops_at=NOW + HOUR)
    assert verbs.stop_expired(now=NOW + HOUR) == 1
    assert tick(row, NOW + 2 * HOUR) == (0, True, MONDAY)
    assert tick(row, MONDAY)[:2] == (1, False)


def test_a_stop_that_was_missed_is_done_late(cast: Cast) -> None:
    assert tick(running(cast), FRIDAY_END + 30 * HOUR) == (1, True, MONDAY)


def test_a_start_that_was_missed_is_done_while_they_last(cast: Cast) -> None:
    row = running(cast)
    tick(row, FRIDAY_END)
    assert tick(row, MONDAY_END - HOUR) == (1, False, MONDAY_END)


def test_and_not_after_them(cast: Cast) -> None:
    row = running(cast)
    tick(row, FRIDAY_END)
    assert tick(row, MONDAY_END + HOUR) == (0, True, MONDAY + timedelta(days=1))


def test_a_stop_that_was_missed_until_they_hold_again_is_none(cast: Cast) -> None:
    assert tick(running(cast), MONDAY + HOUR) == (0, False, MONDAY_END)


def test_what_is_made_stopped_waits_for_them(cast: Cast) -> None:
    row = submit(cast, notebook={"hours": HOURS}, suspend=True)
    assert (row.hours_due_at, row.hours_stop) == (MONDAY, None)
    assert tick(row, MONDAY)[:2] == (1, False)


def test_what_is_stopped_until_somebody_asks_is_not_started(cast: Cast) -> None:
    row = running(cast)
    verbs.stop_workload(actor=as_actor(cast.petra), workload=row, reason="idle", now=NOW, until_asked=True)
    assert tick(row, MONDAY) == (0, True, None)
    assert "no more until somebody does" in words_of(now_of(row), NOW)
    by_hand(cast, row, verbs.resume_workload, MONDAY + HOUR)
    assert tick(row, MONDAY_END)[:2] == (1, True)


@pytest.mark.parametrize("ended", ["deleted", "failed"])
def test_what_is_over_has_no_next(cast: Cast, ended: str) -> None:
    row = running(cast)
    if ended == "deleted":
        verbs.delete_workload(actor=as_actor(cast.rosa), workload=row, keep_volumes=True, now=NOW)
    else:
        Workload.objects.filter(pk=row.pk).update(phase=Phase.FAILED)
    assert words_of(now_of(row), NOW) == ""
    assert tick(row, FRIDAY_END) == (0, False, None)


def test_what_comes_back_with_its_disks_has_its_hours_again(cast: Cast) -> None:
    row = running(cast)
    verbs.delete_workload(actor=as_actor(cast.rosa), workload=row, keep_volumes=True, now=NOW)
    Workload.objects.filter(pk=row.pk).update(deleted_at=NOW)
    back = keeping.reattach(actor=as_actor(cast.rosa), workload=row, now=NOW)
    assert (back.hours_due_at, back.suspended) == (FRIDAY_END, False)


def test_a_start_that_is_refused_is_told_and_tried_again_next_time(cast: Cast) -> None:
    row = running(cast)
    tick(row, FRIDAY_END)
    cast.vision.quotas.all().delete()
    assert tick(row, MONDAY) == (0, True, MONDAY + timedelta(days=1))
    assert tick(row, MONDAY + HOUR) == (0, True, MONDAY + timedelta(days=1))
    line = WorkloadEvent.objects.get(workload=row, reason="NotStarted").message
    assert line.startswith("It was not started when its working hours began: ")
    assert line.endswith("Its working hours start it tomorrow at 08:00 Europe/Berlin.")
    assert [notice.user for notice in Notice.objects.filter(kind="workload.waits")] == [cast.rosa]


@pytest.mark.parametrize("gone", ["team", "account"])
def test_it_is_not_started_for_who_may_not_open_it(cast: Cast, gone: str) -> None:
    row = running(cast)
    tick(row, FRIDAY_END)
    if gone == "team":
        Membership.objects.filter(user=cast.rosa).delete()
    else:
        cast.rosa.is_active = False
        cast.rosa.save()
    assert tick(row, MONDAY)[:2] == (0, True)
    assert "may not run work in vision any more" in WorkloadEvent.objects.get(reason="NotStarted").message


def test_who_may_set_them(cast: Cast) -> None:
    row = running(cast)
    spec = reading.spec_of(row)
    for user in (cast.otto, cast.ann):
        with pytest.raises(NotAllowed):
            verbs.update_workload(
                actor=as_actor(user), workload=row, change=WorkloadChange(spec=spec), now=NOW
            )


def test_a_job_has_none(cast: Cast) -> None:
    with pytest.raises(Invalid):
        asked(kind="job", image="a/b:1", notebook={"hours": HOURS})


def test_one_that_cannot_be_kept_does_not_keep_others_from_theirs(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = running(cast), submit(cast, slug="nb-two", notebook={"hours": HOURS})
    real = verbs.stop_workload

    def breaks(*, workload: Workload, **given: Any) -> Workload:
        if workload.pk == first.pk:
            raise RuntimeError("broken")
        return real(workload=workload, **given)

    monkeypatch.setattr(verbs, "stop_workload", breaks)
    assert working_hours.keep_due(now=FRIDAY_END) == 1
    assert (now_of(first).suspended, now_of(second).suspended) == (False, True)


@pytest.mark.parametrize("act", ["stop", "start", "refused start"])
def test_a_worker_that_is_killed_leaves_nothing_half_done(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_args: object, **_given: object) -> None:
        raise Killed

    row, at = running(cast), FRIDAY_END
    if act != "stop":
        tick(row, FRIDAY_END)
        at = MONDAY
    if act == "refused start":
        cast.vision.quotas.all().delete()
    before, lines = now_of(row), WorkloadEvent.objects.count()
    with monkeypatch.context() as patched:
        patched.setattr("apps.workloads.changes.services.writing.woken", dies)
        with pytest.raises(Killed):
            working_hours.keep_due(now=at)
    after = now_of(row)
    assert (after.suspended, after.hours_due_at, after.generation) == (
        before.suspended, before.hours_due_at, before.generation,
    )  # fmt: skip
    assert WorkloadEvent.objects.count() == lines
    assert working_hours.keep_due(now=at) == (0 if act == "refused start" else 1)
    assert WorkloadEvent.objects.count() == lines + 1


def test_a_tick_is_one_statement_on_an_index(cast: Cast) -> None:
    running(cast)
    with CaptureQueriesContext(connection) as statements:
        working_hours.keep_due(now=NOW)
    assert len(statements) == 1
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        plan = Workload.objects.filter(hours_due_at__lte=NOW).order_by("hours_due_at").explain()
    assert "workload_by_hours" in plan


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (timedelta(), "Its working hours stop it today at 18:00 Europe/Berlin."),
        (8 * HOUR, "Its working hours start it on Monday at 08:00 Europe/Berlin."),
        (timedelta(days=2), "Its working hours start it tomorrow at 08:00 Europe/Berlin."),
    ],
)
def test_what_they_do_next_in_words(cast: Cast, after: timedelta, words: str) -> None:
    row = running(cast)
    working_hours.keep_due(now=NOW + after)
    assert words_of(now_of(row), NOW + after) == words


def test_a_copy_has_the_same_hours(cast: Cast) -> None:
    row = running(cast)
    copy = verbs.submit_workload(
        actor=as_actor(cast.rosa),
        tenant=cast.vision,
        request=asked("nb-copy", notebook=row.spec["notebook"]),
        now=NOW,
    )
    assert copy.hours == row.hours


def test_the_clock_keeps_them(cast: Cast) -> None:
    assert "workloads.keep_hours" in rounds.PARTS
    row, before = running(cast), timezone.now()
    Workload.objects.filter(pk=row.pk).update(hours_due_at=NOW - HOUR)
    periodic.keep_hours()
    due = now_of(row).hours_due_at
    assert due is not None
    assert due > before
