"""Working hours as a request and an answer have them. Pure."""

import re
from functools import cache
from typing import Annotated, NotRequired, TypedDict
from zoneinfo import available_timezones

from apps.web.shapes.typed import keywords
from apps.words import nearest
from apps.workloads.hours_specs import (
    MIDNIGHT,
    USUAL,
    WEEK,
    Day,
    WorkingHours,
    clock,
    is_zone,
    minutes_of,
)
from apps.workloads.spec.field_reader import Reader

BEGINS = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
ENDS = re.compile(rf"{BEGINS.pattern}|24:00")
LONGEST_ZONE = 64

_WishedClock = TypedDict(
    "_WishedClock",
    {
        "from": NotRequired[
            Annotated[str | None, keywords(pattern=f"^{BEGINS.pattern}$"), "HH:MM; 08:00 unless named."]
        ],
        "until": NotRequired[
            Annotated[
                str | None,
                keywords(pattern=f"^({ENDS.pattern})$"),
                "HH:MM, later on the same day, or 24:00; 18:00 unless named.",
            ]
        ],
    },
)
_Clock = TypedDict("_Clock", {"from": Annotated[str, "HH:MM"], "until": Annotated[str, "HH:MM, or 24:00."]})


class WorkingHoursWish(_WishedClock):
    """When it runs: outside it is stopped, at their start it is started again."""

    days: Annotated[list[Day], keywords(minItems=1, maxItems=len(WEEK))]
    time_zone: NotRequired[
        Annotated[str | None, keywords(maxLength=LONGEST_ZONE), "Of the IANA list; UTC unless named."]
    ]


class WorkingHoursBody(_Clock):
    """When it runs: outside it is stopped, at their start it is started again."""

    days: Annotated[list[Day], "In the order of the week."]
    time_zone: Annotated[str, "Of the IANA list."]


def read(block: Reader) -> WorkingHours | None:
    """The hours in the block of a notebook, or problems at their fields; None: it has none."""
    if not block.has("hours"):
        return None
    part = block.part("hours")
    part.only({"days", "from", "until", "time_zone"})
    days = _days(part)
    begins = _clock(part, "from", USUAL[0], BEGINS)
    ends = _clock(part, "until", USUAL[1], ENDS)
    zone = part.text("time_zone", default="UTC", longest=LONGEST_ZONE)
    if zone and not is_zone(zone):
        near = nearest(zone, _zones())
        words = "Name a time zone of the IANA list, such as Europe/Berlin."
        part.refuse("time_zone", f"Did you mean {near}?" if near else words)
    if ends <= begins:
        part.refuse("until", f"Must be later on the same day than {clock(begins)}.")
    if days == WEEK and (begins, ends) == (0, MIDNIGHT):
        part.refuse("days", "These hours never end: leave them out.")
    return WorkingHours(days, begins, ends, zone)


def as_json(hours: WorkingHours | None) -> WorkingHoursBody | None:
    """The JSON of the hours, complete."""
    if hours is None:
        return None
    begins, ends = clock(hours.begins), clock(hours.ends)
    return {"days": list(hours.days), "from": begins, "until": ends, "time_zone": hours.time_zone}


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _days(part: Reader) -> tuple[Day, ...]:
    given = part.items("days", most=len(WEEK))
    if part.fields.get("days") in (None, []):
        part.refuse("days", "Name a day at least, such as Mon.", code="required")
    if any(day not in WEEK for day in given):
        part.refuse("days", f"Of {', '.join(WEEK)}.")
    return tuple(day for day in WEEK if day in given)


def _clock(part: Reader, key: str, usual: int, pattern: re.Pattern[str]) -> int:
    text = part.text(key, default=clock(usual))
    if pattern.fullmatch(text):
        return minutes_of(text)
    if text:
        part.refuse(key, f"A time such as {clock(usual)}.")
    return usual
