"""Working hours on the wall's clock: across a change of the clocks, the week's end and midnight."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.workloads.hours_specs import WEEK, Day, WorkingHours, days_text, is_zone, minutes_of
from apps.workloads.spec import hours as reading
from tests.workloads.asking import asked, problems_of

WEEKDAYS = WEEK[:5]
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hours(begins: str, ends: str, zone: str, days: tuple[Day, ...] = WEEKDAYS) -> WorkingHours:
    return WorkingHours(days, minutes_of(begins), minutes_of(ends), zone)


# Berlin: 29 March 2026 02:00 -> 03:00, 25 October 03:00 -> 02:00. New York: 8 March 02:00 -> 03:00,
# 1 November 02:00 -> 01:00.
NEXT = [
    # what, hours, after, its next beginning, its next end
    ("winter", hours("08:00", "18:00", BERLIN), "2026-01-14T12:00", "2026-01-15T07:00", "2026-01-14T17:00"),
    ("summer", hours("08:00", "18:00", BERLIN), "2026-07-15T12:00", "2026-07-16T06:00", "2026-07-15T16:00"),
    ("Friday evening", hours("08:00", "18:00", BERLIN),
     "2026-07-17T17:00", "2026-07-20T06:00", "2026-07-20T16:00"),
    ("clocks go forward over the weekend", hours("08:00", "18:00", BERLIN),
     "2026-03-27T17:00", "2026-03-30T06:00", "2026-03-30T16:00"),
    ("clocks go back over the weekend", hours("08:00", "18:00", BERLIN),
     "2026-10-23T16:00", "2026-10-26T07:00", "2026-10-26T17:00"),
    ("New York goes forward", hours("08:00", "18:00", NEW_YORK),
     "2026-03-06T23:00", "2026-03-09T12:00", "2026-03-09T22:00"),
    ("New York goes back", hours("08:00", "18:00", NEW_YORK),
     "2026-10-30T22:00", "2026-11-02T13:00", "2026-11-02T23:00"),
    ("at its beginning, the next", hours("08:00", "18:00", BERLIN),
     "2026-07-15T06:00", "2026-07-16T06:00", "2026-07-15T16:00"),
    ("at its end, the next", hours("08:00", "18:00", BERLIN),
     "2026-07-15T16:00", "2026-07-16T06:00", "2026-07-16T16:00"),
    ("a beginning that Berlin skips", hours("02:30", "18:00", BERLIN, (Day.SUN,)),
     "2026-03-28T12:00", "2026-03-29T01:30", "2026-03-29T16:00"),
    ("an end that New York skips", hours("00:00", "02:30", NEW_YORK, (Day.SUN,)),
     "2026-03-08T06:00", "2026-03-15T04:00", "2026-03-08T07:30"),
    ("hours that Berlin skips leave nothing of that day", hours("02:30", "03:15", BERLIN, (Day.SUN,)),
     "2026-03-28T12:00", "2026-04-05T00:30", "2026-04-05T01:15"),
    ("of a time that Berlin has twice, the first", hours("02:30", "18:00", BERLIN, (Day.SUN,)),
     "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-25T17:00"),
    ("of an end that New York has twice, the first", hours("00:00", "01:30", NEW_YORK, (Day.SUN,)),
     "2026-11-01T04:30", "2026-11-08T05:00", "2026-11-01T05:30"),
    ("until midnight", hours("08:00", "24:00", BERLIN),
     "2026-07-15T12:00", "2026-07-16T06:00", "2026-07-15T22:00"),
    ("whole days are one", hours("00:00", "24:00", BERLIN),
     "2026-07-14T12:00", "2026-07-19T22:00", "2026-07-17T22:00"),
    ("over the year's end", hours("08:00", "18:00", BERLIN, (Day.FRI,)),
     "2026-12-31T12:00", "2027-01-01T07:00", "2027-01-01T17:00"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("of", "after", "begins", "ends"), [row[1:] for row in NEXT], ids=[row[0] for row in NEXT]
)
def test_when_they_next_begin_and_end(of: WorkingHours, after: str, begins: str, ends: str) -> None:
    assert (of.next_begin(utc(after)), of.next_end(utc(after))) == (utc(begins), utc(ends))
    assert of.hold(utc(begins))
    assert not of.hold(utc(ends))


def test_whether_they_hold() -> None:
    weekdays = hours("08:00", "18:00", BERLIN)
    for inside in ("2026-03-27T07:00", "2026-03-30T06:00", "2026-03-30T15:59"):
        assert weekdays.hold(utc(inside)), inside
    for outside in ("2026-03-27T06:59", "2026-03-29T10:00", "2026-03-30T05:59", "2026-03-30T16:00"):
        assert not weekdays.hold(utc(outside)), outside


def test_a_day_is_an_hour_shorter_where_the_clocks_go_forward_in_it() -> None:
    nights = hours("00:00", "08:00", BERLIN, (Day.SUN,))
    for after, long in (("2026-03-28T12:00", 7), ("2026-10-24T12:00", 9), ("2026-07-18T12:00", 8)):
        begin, end = nights.next_begin(utc(after)), nights.next_end(utc(after))
        assert (end - begin).total_seconds() == long * 3600


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (WEEKDAYS, "Mon-Fri"),
        (WEEK, "Mon-Sun"),
        ((Day.MON, Day.WED, Day.FRI), "Mon, Wed, Fri"),
        ((Day.MON, Day.TUE, Day.SAT), "Mon-Tue, Sat"),
        ((), ""),
    ],
)
def test_days_in_words(days: tuple[Day, ...], words: str) -> None:
    assert days_text(days) == words


def test_what_a_request_has_is_what_is_kept_and_shown() -> None:
    given = {"days": ["Fri", "Mon", "Mon"], "from": "09:30", "until": "24:00", "time_zone": BERLIN}
    block = asked(notebook={"hours": given}).spec.notebook
    assert block is not None
    assert block.hours == hours("09:30", "24:00", BERLIN, (Day.MON, Day.FRI))
    kept = reading.as_json(block.hours)
    assert kept == {"days": ["Mon", "Fri"], "from": "09:30", "until": "24:00", "time_zone": BERLIN}
    assert WorkingHours.stored(kept) == block.hours
    assert (str(block.hours), block.hours.a_week) == ("Mon, Fri 09:30-24:00 Europe/Berlin", 29)


def test_days_alone_are_office_hours() -> None:
    block = asked(notebook={"hours": {"days": ["Mon"]}}).spec.notebook
    assert block is not None
    assert block.hours == hours("08:00", "18:00", "UTC", (Day.MON,))


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({}, {"days": "required"}),
        ({"days": []}, {"days": "required"}),
        ({"days": None}, {"days": "required"}),
        ({"days": "Mon"}, {"days": "invalid_value"}),
        ({"days": ["Mo"]}, {"days": "invalid_value"}),
        ({"days": [{}, 1, None]}, {"days": "invalid_value"}),
        ({"days": ["Mon"] * 8}, {"days": "out_of_range"}),
        ({"days": ["Mon"], "until": "08:00"}, {"until": "invalid_value"}),
        ({"days": ["Mon"], "from": "22:00", "until": "06:00"}, {"until": "invalid_value"}),
        ({"days": ["Mon"], "from": "24:00"}, {"from": "invalid_value"}),
        ({"days": ["Mon"], "until": "24:01"}, {"until": "invalid_value"}),
        ({"days": ["Mon"], "from": "8:00"}, {"from": "invalid_value"}),
        ({"days": ["Mon"], "from": 8}, {"from": "invalid_value"}),
        ({"days": ["Mon"], "from": "٠٨:٠٠"}, {"from": "invalid_value"}),
        ({"days": ["Mon"], "until": "18:00\n"}, {"until": "invalid_value"}),
        ({"days": ["Mon"], "time_zone": "Berlin"}, {"time_zone": "invalid_value"}),
        ({"days": ["Mon"], "time_zone": "../../etc/passwd"}, {"time_zone": "invalid_value"}),
        ({"days": ["Mon"], "time_zone": "x" * 65}, {"time_zone": "invalid_value"}),
        ({"days": ["Mon"], "time_zone": "a\x00b"}, {"time_zone": "invalid_value"}),
        ({"days": ["Mon"], "zone": "UTC"}, {"zone": "unknown_field"}),
        ({"days": list(WEEK), "from": "00:00", "until": "24:00"}, {"days": "invalid_value"}),
    ],
)
def test_what_cannot_be_kept_is_refused_at_its_field(
    given: dict[str, object], problems: dict[str, str]
) -> None:
    body = {"kind": "notebook", "offer": "h100", "notebook": {"hours": given}}
    assert problems_of(body) == {f"/spec/notebook/hours/{name}": code for name, code in problems.items()}


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "America/New_York", "Asia/Kathmandu"])
def test_zones_of_the_list(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize("name", ["europe/berlin", "Europe", "", "/etc/localtime", "\ud800", "CEST"])
def test_no_zones(name: str) -> None:
    assert not is_zone(name)


@pytest.mark.parametrize(
    ("begin", "end", "within"),
    [
        ("2026-07-15T12:00", "2026-07-22T12:00", 50),
        ("2026-07-15T12:00", "2026-07-15T13:30", 1.5),
        ("2026-07-15T17:00", "2026-07-16T05:00", 0),
        ("2026-03-27T16:00", "2026-03-30T07:00", 2),
        ("2026-07-15T12:00", "2026-07-15T12:00", 0),
    ],
)
def test_of_a_span_what_lies_in_them_counts(begin: str, end: str, within: float) -> None:
    found = hours("08:00", "18:00", BERLIN).within(utc(begin), utc(end))
    assert found == timedelta(hours=within)
