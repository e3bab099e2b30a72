"""When idle work may be stopped: quiet hours over midnight and clock changes, bounds, who sets it."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

import pytest

from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed
from apps.metering.detector import usage
from apps.metering.detector.trace import Allocation as TracedAllocation
from apps.metering.findings.rules.idle_policy import Policy, for_workload, problems_of
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import auto_stop, idle_policies, lifecycle
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import IdleMode
from apps.quotas.models import Offer
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import IdleAction, IdleWish, Kind
from tests.conftest import Cast, as_actor
from tests.factories import make_offer, make_quota, make_workload
from tests.metering.traced import HOUR, NOW, running, seen
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

MINUTE = timedelta(minutes=1)
JSON = "application/json"
NIGHT = (time(22), time(6))
BERLIN = Policy(quiet=NIGHT, time_zone="Europe/Berlin")


def utc(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def test_quiet_hours_span_midnight_on_the_tenants_clock() -> None:
    # Berlin is one hour ahead in November: 22:00 to 06:00 is 21:00 to 05:00 UTC.
    assert not BERLIN.is_quiet(utc(11, 20, 20, 59))
    assert BERLIN.is_quiet(utc(11, 20, 21))
    assert BERLIN.is_quiet(utc(11, 21, 4, 59))
    assert not BERLIN.is_quiet(utc(11, 21, 5))
    assert BERLIN.allowed(utc(11, 20, 21)) == utc(11, 21, 5)
    assert BERLIN.allowed(utc(11, 21, 3)) == utc(11, 21, 5)
    assert BERLIN.allowed(utc(11, 21, 5)) == utc(11, 21, 5)


def test_a_countdown_into_quiet_hours_ends_with_them() -> None:
    assert BERLIN.stop_at(utc(11, 20, 20, 45)) == utc(11, 21, 5)
    assert BERLIN.extended(utc(11, 20, 20, 30)) == utc(11, 21, 5)
    assert BERLIN.stop_at(utc(11, 20, 12)) == utc(11, 20, 12, 30)


def test_quiet_hours_within_a_day() -> None:
    noon = Policy(quiet=(time(12), time(13)))
    assert noon.allowed(utc(11, 20, 12, 30)) == utc(11, 20, 13)
    assert not noon.is_quiet(utc(11, 20, 13))


def test_the_night_of_the_longer_hour_is_quiet_to_its_end() -> None:
    # On 25 October 2026 Berlin's 03:00 becomes 02:00: 06:00 is 05:00 UTC instead of 04:00.
    assert BERLIN.allowed(utc(10, 24, 23)) == utc(10, 25, 5)
    inside = Policy(quiet=(time(22), time(2, 30)), time_zone="Europe/Berlin")
    assert inside.allowed(utc(10, 25, 0, 10)) == utc(10, 25, 0, 30)
    assert inside.is_quiet(utc(10, 25, 1, 10))
    assert inside.allowed(utc(10, 25, 1, 10)) == utc(10, 25, 1, 30)


def test_the_night_of_the_skipped_hour_ends_never_early() -> None:
    # On 29 March 2026 Berlin's 02:00 becomes 03:00: 02:30 is not on the wall that night.
    skipped = Policy(quiet=(time(22), time(2, 30)), time_zone="Europe/Berlin")
    ends = skipped.allowed(utc(3, 28, 22))
    assert utc(3, 29, 1) <= ends <= utc(3, 29, 1, 30)
    assert not skipped.is_quiet(ends)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("quiet", [NIGHT, (time(1, 30), time(2, 15)), (time(23, 59), time(0, 1))])
def test_what_is_allowed_is_never_earlier_nor_quiet_in_any_quarter_of_a_year(
    zone: str, quiet: tuple[time, time]
) -> None:
    policy = Policy(quiet=quiet, time_zone=zone)
    moments = [utc(1, 1, 0) + index * timedelta(minutes=157) for index in range(3350)]
    found = [policy.allowed(at) for at in moments]
    assert all(end >= at and not policy.is_quiet(end) for at, end in zip(moments, found, strict=True))
    assert all(a <= b for a, b in pairwise(found))
    assert any(end > at for at, end in zip(moments, found, strict=True))


def test_what_cannot_be_kept_is_refused_field_by_field() -> None:
    wrong = Policy(
        idle_seconds=1, countdown_seconds=10**6, quiet=(time(1), time(1)), office=(time(18), time(9)),
        time_zone="Mars/Olympus",
    )  # fmt: skip
    assert {problem.pointer for problem in problems_of(wrong)} == {
        "/spec/idle_seconds", "/spec/countdown_seconds", "/spec/quiet_to", "/spec/office_to",
        "/spec/time_zone",
    }  # fmt: skip
    assert problems_of(Policy(time_zone="../etc/passwd"))
    assert problems_of(Policy(time_zone=""))
    assert not problems_of(Policy())


@pytest.mark.django_db
def test_leads_set_it_members_do_not_and_it_is_audited(cast: Cast) -> None:
    policy = Policy(mode=IdleMode.TELL, quiet=NIGHT)
    for actor in map(as_actor, (cast.rosa, cast.ann, cast.otto)):
        with pytest.raises(NotAllowed):
            idle_policies.set_idle_policy(actor=actor, tenant=cast.vision, policy=policy, now=NOW)
    for _ in range(2):
        idle_policies.set_idle_policy(actor=as_actor(cast.leon), tenant=cast.vision, policy=policy, now=NOW)
    event = AuditEvent.objects.get(action="idle_policy.set")
    assert event.changes == {"mode": ["countdown", "tell"], "quiet": ["", "22:00-06:00"]}
    assert selectors.policy_of(cast.vision) == policy
    assert selectors.policy_of(cast.speech) == Policy()
    wrong = Policy(idle_seconds=1)
    with pytest.raises(Invalid):
        idle_policies.set_idle_policy(actor=as_actor(cast.leon), tenant=cast.vision, policy=wrong, now=NOW)


@pytest.mark.django_db
def test_a_stop_that_falls_into_new_quiet_hours_waits_for_their_end(cast: Cast) -> None:
    row = _counted(cast)
    IdlePolicy.objects.create(tenant=cast.vision, quiet_from=time(15), quiet_to=time(17))
    assert auto_stop.stop_due(now=NOW + 41 * MINUTE) == 0
    row.refresh_from_db()
    assert row.stops_at == NOW + 2 * HOUR
    row.work.refresh_from_db()
    assert (row.work.suspended, row.work.idle_stops_at) == (False, NOW + 2 * HOUR)
    assert auto_stop.stop_due(now=NOW + 2 * HOUR + MINUTE) == 1


@pytest.mark.django_db
def test_a_policy_that_stops_no_more_takes_the_countdown_back(cast: Cast) -> None:
    row = _counted(cast)
    IdlePolicy.objects.create(tenant=cast.vision, mode=IdleMode.ASK)
    assert auto_stop.stop_due(now=NOW + 41 * MINUTE) == 0
    row.refresh_from_db()
    assert (row.stops_at, row.phase) == (None, "Open")


@pytest.mark.django_db
def test_a_notebook_does_not_idle_at_night_nor_outside_its_teams_office_hours(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, _whole(cast))
    assert row.kind == Kind.NOTEBOOK
    running(row, since=NOW - 10 * HOUR)
    seen("GPU-1-0", NOW - 10 * HOUR, NOW - 8 * HOUR, busy=True)
    seen("GPU-1-0", NOW - 8 * HOUR, NOW)
    # NOW is 15:00 UTC: 04:00 in Auckland, deep in the night there.
    IdlePolicy.objects.create(
        tenant=cast.vision, time_zone="Pacific/Auckland", office_from=time(9), office_to=time(10)
    )
    lifecycle.judge_one(row.pk, now=NOW)
    assert not Finding.objects.exists()
    IdlePolicy.objects.update(time_zone="UTC", office_from=None, office_to=None)
    lifecycle.judge_one(row.pk, now=NOW)
    assert Finding.objects.get().kind in ("forgotten", "hoarder")


@pytest.mark.parametrize(
    ("team", "wish", "by_lead", "mode", "seconds"),
    [
        ("countdown", None, False, "countdown", 3600),
        ("countdown", ("stop", 600), False, "countdown", 600),
        ("countdown", ("warn", 7200), False, "countdown", 3600),
        ("tell", ("stop", None), False, "countdown", 3600),
        ("tell", ("warn", None), False, "ask", 3600),
        ("stop", ("stop", None), False, "stop", 3600),
        ("countdown", ("none", None), False, "countdown", 3600),
        ("countdown", ("none", None), True, "tell", 3600),
        ("countdown", ("warn", 7200), True, "ask", 7200),
        ("stop", ("stop", 7200), True, "stop", 7200),
        ("ask", ("stop", 7200), True, "countdown", 7200),
    ],
)
def test_a_members_wish_only_tightens_the_teams_policy_and_a_leads_counts(
    team: str, wish: tuple[str, int | None] | None, *, by_lead: bool, mode: str, seconds: int
) -> None:
    asked = IdleWish(IdleAction(wish[0]), wish[1]) if wish else None
    found = for_workload(Policy(IdleMode(team)), asked, as_given=by_lead)
    assert (found.mode, found.idle_seconds) == (mode, seconds)


@pytest.mark.django_db
def test_what_a_lead_lets_idle_is_not_stopped_and_its_countdown_is_taken_back(cast: Cast) -> None:
    row = _counted(cast)
    Workload.objects.update(idle_by_lead=True)
    work = row.work
    work.spec = parsing.as_json(parsing.parse(work.spec)) | {"idle_policy": {"action": "none"}}
    work.save(update_fields=["spec"])
    assert auto_stop.stop_due(now=NOW + 41 * MINUTE) == 0
    row.refresh_from_db()
    assert (row.stops_at, row.phase) == (None, "Open")


@pytest.mark.parametrize(
    ("first", "hours"),
    [
        # Clocks go back on Sunday, 25 October 2026, forward on 28 March 2027; New York a week later, earlier.
        (datetime(2026, 10, 23, 12, tzinfo=UTC), {"Europe/Berlin": [7, 8], "America/New_York": [13, 13]}),
        (datetime(2027, 3, 26, 12, tzinfo=UTC), {"Europe/Berlin": [8, 7], "America/New_York": [13, 13]}),
        (datetime(2026, 10, 30, 23, tzinfo=UTC), {"America/New_York": [13, 14, 14]}),
        (datetime(2026, 11, 3, tzinfo=UTC), {"Europe/Berlin": [8, 8, 8, 8], "UTC": [9, 9, 9, 9]}),
    ],
)
def test_office_hours_are_those_of_each_days_own_clock(first: datetime, hours: dict[str, list[int]]) -> None:
    last = first + timedelta(days=4)
    for zone, begin in hours.items():
        policy = Policy(time_zone=zone, office=(time(9), time(18)))
        held = TracedAllocation(
            "a", kind="notebook", start=first.replace(hour=0).timestamp(), end=last.timestamp(),
            utc_offset_h=policy.offset_hours(last), offsets=policy.offsets(first, last),
        )  # fmt: skip
        found = [datetime.fromtimestamp(a, UTC) for a, _ in usage.counted_time(held)]
        assert [at.hour for at in found][: len(begin)] == begin
        assert {policy.local(at).hour for at in found} == {9}


def test_a_clock_that_never_changes_needs_no_offsets() -> None:
    assert Policy(time_zone="Asia/Tokyo").offsets(NOW - timedelta(days=4), NOW) == ()


@pytest.mark.django_db
def test_rest_shows_and_sets_it(cast: Cast) -> None:
    leon, rosa, otto = (Api(user).client for user in (cast.leon, cast.rosa, cast.otto))
    url = "/api/v1/tenants/vision/idle-policy"
    found = rosa.get(url).json()
    assert (found["spec"]["mode"], found["spec"]["idle_seconds"], found["spec"]["quiet_from"]) == (
        "countdown", 3600, None,
    )  # fmt: skip
    assert otto.get(url).status_code == 404
    change = {"spec": {"quiet_from": "22:00", "quiet_to": "06:00", "time_zone": "Europe/Berlin"}}
    assert rosa.patch(url, change, content_type=JSON).status_code == 403
    patched = leon.patch(url, change, content_type=JSON)
    assert patched.status_code == 200, patched.content
    assert (patched.json()["spec"]["quiet_from"], patched.json()["updated_by"]) == ("22:00", "lead")
    assert selectors.policy_of(cast.vision) == BERLIN
    half = leon.patch(url, {"spec": {"quiet_to": None}}, content_type=JSON)
    assert (half.status_code, half.json()["code"]) == (422, "validation_failed")
    zone = leon.put(url, {"spec": {"time_zone": "Nowhere"}}, content_type=JSON)
    assert zone.json()["errors"][0]["pointer"] == "#/spec/time_zone"
    assert leon.put(f"{url}?dry_run=true", {"spec": {}}, content_type=JSON).json()["dry_run"] is True
    assert selectors.policy_of(cast.vision) == BERLIN
    assert leon.put(url, {"spec": {}}, content_type=JSON).json()["spec"]["quiet_from"] is None


def _whole(cast: Cast) -> Offer:
    offer = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3")
    make_quota(cast.vision, offer, nominal=8)
    return offer


def _counted(cast: Cast) -> Finding:
    """A job's finding whose countdown ends 40 minutes after NOW."""
    row: Workload = make_workload(cast.vision, cast.rosa, _whole(cast), slug="asr-tune")
    row.kind, row.spec = Kind.JOB, {**row.spec, "kind": "job", "job": {}}
    row.save()
    running(row, since=NOW - 5 * HOUR)
    seen("GPU-1-0", NOW - 5 * HOUR, NOW + 4 * HOUR)
    for minutes in (0, 10):
        lifecycle.judge_one(row.pk, now=NOW + minutes * MINUTE)
    found = Finding.objects.get()
    assert found.stops_at == NOW + 40 * MINUTE
    return found
