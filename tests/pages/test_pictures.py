"""The pictures: geometry in percent, words as text alternative, nothing that a name could break out of."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from apps.web.shapes.durations import duration
from portal.pages.parts.pictures.charts import Block, QuotaBar, countdown, mig_layout, quota_bar

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)


def rects(svg: str) -> dict[str, tuple[str, str]]:
    shown = ET.fromstring(svg)  # noqa: S314 - our own markup
    return {r.attrib["class"]: (r.attrib["x"], r.attrib["width"]) for r in shown.iter("rect")}


def test_a_quota_bar_shows_use_lending_and_room_on_one_axis() -> None:
    bar = QuotaBar("H100", guaranteed=8, used=5, lent=1, borrow_limit=2)
    assert bar.words == "5 used + 1 lent of 8; may borrow 2"
    assert rects(quota_bar(bar)) == {
        "p-own": ("0.000%", "50.000%"),
        "p-lent": ("50.000%", "10.000%"),
        "p-free": ("60.000%", "20.000%"),
        "p-room": ("80.000%", "20.000%"),
    }


def test_what_waits_starts_where_use_ends() -> None:
    bar = QuotaBar("H100", guaranteed=2, used=2, borrow_limit=2, pending=2)
    assert bar.words == "2 used of 2; may borrow 2; 2 wait"
    assert rects(quota_bar(bar))["p-pending"] == ("50.000%", "50.000%")


def test_a_cut_below_use_says_that_running_work_stays() -> None:
    bar = QuotaBar("H100", guaranteed=2, used=5, borrow_limit=1)
    assert (bar.own, bar.borrowed, bar.over) == (2, 1, 2)
    assert bar.words.endswith("over by 2: running work stays")
    assert "p-over" in rects(quota_bar(bar))


def test_no_limit_on_borrowing_is_never_over() -> None:
    assert QuotaBar("H100", guaranteed=1, used=9, borrow_limit=None).over == 0


def test_nothing_guaranteed_is_said() -> None:
    assert QuotaBar("H100", guaranteed=0).words == "Nothing guaranteed"


def test_a_layout_places_instances_on_their_memory_slices() -> None:
    svg = mig_layout([Block("3g.40gb", 4, 4, 3, "held"), Block("1g.10gb", 0, 1, 1)])
    assert rects(svg)["p-used"] == ("50.000%", "50.000%")
    assert rects(svg)["p-room"] == ("0.000%", "12.500%")
    assert [t.text for t in ET.fromstring(svg).iter("text")] == ["A", "B"]  # noqa: S314 - our own markup


def test_an_unknown_layout_is_hatched_not_empty() -> None:
    assert "p-unknown" in rects(mig_layout([]))


def test_pictures_carry_no_style_attribute() -> None:
    assert "style=" not in quota_bar(QuotaBar('"><script>', 8, 5)) + mig_layout([Block("<b>", 0, 1, 1)])


@pytest.mark.parametrize(
    ("minutes", "words", "loudness"),
    [
        (190, ", in 3 h 10 min", ""),
        (120, ", in 2 h", ""),
        (52, ", in 52 min", "soon"),
        (10, ", in 10 min", "now"),
        (0, ": stopping", "now"),
        (-5, ": stopping", "now"),
    ],
)
def test_a_countdown_grows_louder(minutes: int, words: str, loudness: str) -> None:
    left = countdown(NOW + timedelta(minutes=minutes), now=NOW)
    assert (left.left, left.loudness) == (words, loudness)


def test_time_left_is_rounded_up_and_time_past_is_cut() -> None:
    assert duration(61, up=True) == "2 min"
    assert duration(119) == "1 min"
    assert duration(40) == "40 s"
    assert duration(4 * 86400 + 7200) == "4 d 2 h"
