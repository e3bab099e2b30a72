"""Prometheus' text exposition (0.0.4), read fast and never trusted. Pure.

An exporter sends the same series in the same order nearly every time, so the caller keeps what the text
looked like: where the heads are equal, only the numbers are read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from apps.metering.telemetry.rules.sources.limits import KEPT_ASIDE, MOST_SERIES

_SERIES = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*"
    r'(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}[ \t]*)?'
    r"(?:(?<=[ \t}])([^\s{}]+)(?:[ \t]+(-?[0-9]+))?)?[ \t]*"
)
"""Name, labels, value, timestamp in ms; the last two are missing in a head."""
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n"}


@dataclass(frozen=True)
class Series:
    """One head: the metric's name and its labels; `timestamp_ms` where the line told its own time."""

    name: str
    labels: Mapping[str, str]
    timestamp_ms: int | None = None


@dataclass
class Malformed:
    """Lines that are not in the format: how many, and the beginning of the first."""

    count: int = 0
    first: str = ""

    def note(self, line: str) -> None:
        """Keep a line aside."""
        self.count += 1
        self.first = self.first or line[:KEPT_ASIDE] or "(an empty value)"


@dataclass
class Page:
    """A text taken apart into heads (`name{labels}`) and values, position by position.

    Comments and blank lines are gone. A text without a line end is cut off, so its last line is malformed.
    """

    heads: list[str]
    values: list[str]
    malformed: Malformed = field(default_factory=Malformed)


class TooMuch(Exception):
    """More series than an exporter can have; nothing of the text is believed."""


def page(text: str) -> Page:
    """Take a text apart; raises `TooMuch`."""
    # Not splitlines: that also cuts at the separators that a label's value may hold.
    lines = text.split("\n")
    cut = lines.pop()
    pairs = [line.rpartition(" ") for line in lines if line and line[0] != "#"]
    if len(pairs) > MOST_SERIES:
        raise TooMuch(f"{len(pairs)} series; an exporter of one node has at most {MOST_SERIES}")
    found = Page([head for head, _, _ in pairs], [value for _, _, value in pairs])
    if cut.strip():
        found.malformed.note(cut)
    return found


def series(head: str) -> Series | None:
    """The series that a head names, None where it is malformed.

    A head may end with a value where the line had a timestamp: see `timed`.
    """
    matched = _SERIES.fullmatch(head)
    labels = _labels(matched.group(2) or "") if matched else None
    if matched is None or labels is None or matched.group(3) is not None:
        return None
    return Series(matched.group(1), labels)


def line_of(line: str) -> tuple[Series, float] | None:
    """A whole line in the general form, with any spaces and a timestamp; None where it is malformed."""
    matched = _SERIES.fullmatch(line)
    if matched is None or matched.group(3) is None:
        return None
    labels, value = _labels(matched.group(2) or ""), number(matched.group(3))
    if labels is None or value is None:
        return None
    told = matched.group(4)
    return Series(matched.group(1), labels, int(told) if told else None), value


def number(text: str) -> float | None:
    """A value as Go writes it: NaN, +Inf and -Inf are numbers here; None for what is no number."""
    try:
        # Python alone takes digits grouped by underscores.
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def numbers(values: list[str]) -> list[float | None]:
    """All values of a page at once; None where one is no number."""
    try:
        found: list[float | None] = list(map(float, values))
    except ValueError:
        return [number(value) for value in values]
    return found if "_" not in "".join(values) else [number(value) for value in values]


def parse(text: str) -> tuple[list[tuple[Series, float]], Malformed]:
    """Every line in the general form: what tests and other tools want; raises `TooMuch`."""
    found = page(text)
    return list(_read(found)), found.malformed


def _read(found: Page) -> Iterator[tuple[Series, float]]:
    for head, value in zip(found.heads, found.values, strict=True):
        each = line_of(f"{head} {value}")
        if each is not None:
            yield each
        elif f"{head}{value}".strip():
            found.malformed.note(f"{head} {value}")


def _labels(text: str) -> dict[str, str] | None:
    """The labels of `a="b",c="d"`; None where they are malformed, or one is told twice."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        matched = _LABEL.match(text, at)
        if matched is None or matched.group(1) in found:
            return None
        value = matched.group(2)
        found[matched.group(1)] = _plain(value) if "\\" in value else value
        at = matched.end()
    return found


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found.group(1), found.group(1)), value)
