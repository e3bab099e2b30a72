"""The burn-down of a budget: the charges so far, its limits, the forecast. Pure: values in, SVG out.

The future is an interval, never just a line; where no forecast is possible it is hatched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from portal.pages.parts.pictures.charts import percent
from portal.pages.parts.pictures.usage_curves import (
    FLOOR,
    HEIGHT,
    TOP,
    end_labels,
    end_list,
    round_up,
    scale,
    times,
)


@dataclass(frozen=True)
class Point:
    """So much was charged up to a moment."""

    at: datetime
    value: float


@dataclass(frozen=True)
class Band:
    """So much will have been charged up to a moment."""

    at: datetime
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class BurnChart:
    """A month in [begins, ends) in one unit. `until` is now, or its end; a limit of None is no limit; `words`
    is the conclusion.
    """

    begins: datetime
    ends: datetime
    until: datetime
    so_far: Sequence[Point]
    ahead: Sequence[Band]
    soft: float | None
    hard: float | None
    words: str

    @property
    def spent(self) -> float:
        """Up to now."""
        return self.so_far[-1].value if self.so_far else 0.0

    @property
    def top(self) -> float:
        """The axis ends at a round number above everything drawn."""
        drawn = [self.spent, self.soft or 0.0, self.hard or 0.0, *(each.high for each in self.ahead)]
        return round_up(max(drawn))

    @property
    def is_blank(self) -> bool:
        """Days are to come, and nothing is known of them."""
        return not self.ahead and self.until < self.ends


def burn_chart(chart: BurnChart) -> str:
    """The line of charges, the band of the forecast, and a line across for each limit."""
    frame = Element("div", {"class": "usage-plot", "tabindex": "0", "role": "group"})
    frame.set("aria-label", "Charged over the month")
    frame.append(scale(chart.top))
    frame.append(_plot(chart))
    ends = _ends(chart)
    frame.append(end_labels([(kind, words, _high(chart, value)) for kind, words, value in ends]))
    frame.append(end_list(ends))
    return tostring(frame, encoding="unicode")


def _plot(chart: BurnChart) -> Element:
    svg = Element("svg", {"class": "usage", "width": "100%", "height": str(HEIGHT), "role": "img"})
    svg.set("aria-label", chart.words)
    for part in (0.0, 0.5, 1.0):
        y = f"{FLOOR - part * (FLOOR - TOP):.1f}"
        SubElement(svg, "line", {"class": "u-grid", "x1": "0", "x2": "100%", "y1": y, "y2": y})
    if chart.is_blank:
        _blank(svg, chart)
    inner = SubElement(svg, "svg", {"x": "0", "y": str(TOP), "width": "100%", "height": str(FLOOR - TOP)})
    inner.set("viewBox", "0 0 1000 100")
    inner.set("preserveAspectRatio", "none")
    _lines(inner, chart)
    for kind, limit in (("soft", chart.soft), ("hard", chart.hard)):
        if limit is not None:
            y = f"{_high(chart, limit):.1f}"
            SubElement(svg, "line", {"class": f"u-{kind}", "x1": "0", "x2": "100%", "y1": y, "y2": y})
    times(svg, chart.begins, chart.ends)
    return svg


def _blank(svg: Element, chart: BurnChart) -> None:
    whole = (chart.ends - chart.begins).total_seconds()
    begins = (chart.until - chart.begins).total_seconds()
    rect = SubElement(svg, "rect", {"class": "p-unknown", "x": percent(begins, whole), "y": str(TOP)})
    rect.set("width", percent(whole - begins, whole))
    rect.set("height", str(FLOOR - TOP))
    if whole - begins > 0.2 * whole:
        middle = percent((whole + begins) / 2, whole)
        label = SubElement(svg, "text", {"class": "in", "x": middle, "y": "60", "text-anchor": "middle"})
        label.text = "no forecast"


def _lines(svg: Element, chart: BurnChart) -> None:
    start = _place(chart, chart.until, chart.spent)
    if chart.ahead:
        upper = [_place(chart, each.at, each.high) for each in chart.ahead]
        lower = [_place(chart, each.at, each.low) for each in reversed(chart.ahead)]
        SubElement(svg, "path", {"class": "u-band", "d": f"M{'L'.join([start, *upper, *lower])}Z"})
        middle = [_place(chart, each.at, each.expected) for each in chart.ahead]
        SubElement(svg, "path", {"class": "u-expected", "d": f"M{'L'.join([start, *middle])}"})
    if chart.so_far:
        past = [_place(chart, each.at, each.value) for each in chart.so_far]
        SubElement(
            svg, "path", {"class": "u-sm", "d": f"M{'L'.join([_place(chart, chart.begins, 0), *past])}"}
        )


def _place(chart: BurnChart, at: datetime, value: float) -> str:
    part = (at - chart.begins) / (chart.ends - chart.begins)
    return f"{1000 * part:.1f} {100 - 100 * value / chart.top:.2f}"


def _high(chart: BurnChart, value: float) -> float:
    return FLOOR - value / chart.top * (FLOOR - TOP)


def _ends(chart: BurnChart) -> list[tuple[str, str, float]]:
    """Per line its class, its words and where it ends."""
    found = [("sm", f"charged {chart.spent:,.2f}", chart.spent)]
    if chart.ahead:
        last = chart.ahead[-1].expected
        found.append(("expected", f"foreseen {last:,.2f}", last))
    limits = (("soft", chart.soft), ("hard", chart.hard))
    return found + [(kind, f"{kind} limit {at:,.2f}", at) for kind, at in limits if at is not None]
