"""The parts of a request as people type them, and back: `read(shown(part)) == part`. Pure.

What cannot be read is a ValueError that says what to type.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from apps.workloads.hours_specs import WEEK, Day

HOUR, MINUTE = 3600, 60
LONGEST_NAME = 120
"""Of a workload: its column takes no more."""
_SPAN = re.compile(r"(\d{1,9})\s*([hms]?)")
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))?")
_UNITS = {"": HOUR, "h": HOUR, "m": MINUTE, "s": 1}
_BLANK = re.compile(r"[\n\r]|^\s|\s$|^\"")
"""What a line cannot hold as it is: then the value is written as JSON writes a text."""


def words(text: str) -> list[str]:
    """A command line as a shell splits it, without running one."""
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("A quotation mark is not closed.") from None


def words_shown(found: Iterable[str]) -> str:
    """The line that is split into these words."""
    return shlex.join(found)


def pairs(text: str) -> dict[str, str]:
    """NAME=value, one a line. A value of several lines stands in JSON's quotation marks."""
    found: dict[str, str] = {}
    for number, line in _lines(text):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"Line {number}: NAME=value.")
        if name.strip() in found:
            raise ValueError(f"Line {number}: {name.strip()} is there twice.")
        found[name.strip()] = _unquoted(value)
    return found


def pairs_shown(found: Mapping[str, str]) -> str:
    """A line for each."""
    return "\n".join(f"{name}={_quoted(value)}" for name, value in found.items())


def disks(text: str) -> list[dict[str, str]]:
    """Name, size and where it is mounted, one a line."""
    found = []
    for number, line in _lines(text):
        parts = line.split()
        if len(parts) != len(("name", "size", "mount_path")):
            raise ValueError(f"Line {number}: name, size and path, such as data 100Gi /data.")
        found.append(dict(zip(("name", "size", "mount_path"), parts, strict=True)))
    return found


def disks_shown(volumes: Iterable[Mapping[str, Any]]) -> str:
    """A line for each."""
    return "\n".join(f"{each['name']} {each['size']} {each['mount_path']}" for each in volumes)


def number(text: str | None) -> int | str | None:
    """A whole number where it is one; else the text as typed, for the parser to refuse in its words."""
    typed = (text or "").strip()
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 10 else typed or None


def seconds(text: str | None) -> int | str | None:
    """A time in hours, or 90m, or 30s; what is none of these stays, for the parser to refuse in its words."""
    typed = (text or "").strip()
    found = _SPAN.fullmatch(typed) if typed.isascii() else None
    return int(found[1]) * _UNITS[found[2]] if found else typed or None


def seconds_shown(found: int | None) -> str:
    """In whole hours where it is, else in whole minutes or seconds."""
    if not found:
        return ""
    if found % HOUR == 0:
        return str(found // HOUR)
    return f"{found // MINUTE}m" if found % MINUTE == 0 else f"{found}s"


def days(text: str | None) -> list[str]:
    """Mon-Fri, or Monday, Wednesday. What is none stays, for the parser to refuse in its words."""
    found: list[str] = []
    for part in (text or "").replace(",", " ").replace(" - ", "-").split():
        first, dash, last = (each[:3].capitalize() for each in part.partition("-"))
        if dash and first in WEEK and last in WEEK:
            found += _span(first, last)
        else:
            found.append(first if first in WEEK and not dash else part)
    return list(dict.fromkeys(found))


def _span(first: str, last: str) -> list[str]:
    """From a day to a day, over the end of the week too."""
    begin, end = WEEK.index(Day(first)), WEEK.index(Day(last))
    count = (end - begin) % len(WEEK) + 1
    return [str(WEEK[(begin + step) % len(WEEK)]) for step in range(count)]


def clock(text: str | None) -> str | None:
    """A time of day: 8, 8:30 or 08:30. What is none stays, for the parser to refuse in its words."""
    typed = (text or "").strip()
    found = _CLOCK.fullmatch(typed)
    return f"{int(found[1]):02}:{found[2] or '00'}" if found else typed or None


def _lines(text: str) -> list[tuple[int, str]]:
    lines = text.replace("\r\n", "\n").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if _BLANK.search(value) else value


def _unquoted(value: str) -> str:
    if value[:1] != '"':
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value
