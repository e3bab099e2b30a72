"""Picture (a): what was allocated against what the silicon did. Pure: values in, text out.

Figures that are missing are None and never drawn as 0: they are gaps, hatched and named. Markup is built with
ElementTree and coloured by class, so that no name breaks out of it and the content security policy holds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import ceil, floor, log10
from xml.etree.ElementTree import Element, SubElement, tostring

from portal.pages.parts.pictures.charts import percent
from portal.pages.parts.pictures.label_places import spread

HEIGHT, FLOOR = 200, 172
"""Of the plot in pixels, and where its axis lies; what is below belongs to the times."""
TOP = 8
APART = 15
LINES = {"allocated": "allocated", "smi": "nvidia-smi says", "sm": "SM active"}
EXTRA = {"tensor": "tensor active", "dram": "DRAM active"}
OF_ONE = {"memory": "memory in use"}
"""Only of one workload: the most on any of its devices, in percent of a device's memory."""
Point = tuple[datetime, float | None]


@dataclass(frozen=True)
class Use:
    """One step of time from `at` on; every figure in the chart's unit, None where nothing was measured.

    `coverage` is the part of what was allocated that telemetry speaks of, None while nothing was. `measured`
    are the GPUs that nvidia-smi speaks of, `beside` is SM active on them; None: all that SM active speaks of.
    """

    at: datetime
    allocated: float
    smi: float | None = None
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    memory: float | None = None
    coverage: float | None = None
    measured: float | None = None
    beside: float | None = None

    @property
    def is_apart(self) -> bool:
        """What nvidia-smi says is of fewer devices than the rest: slices have no such figure."""
        return self.measured is not None and self.measured < 0.98 * self.allocated

    @property
    def is_gap(self) -> bool:
        """Allocated, and nobody knows what was done with it."""
        return self.allocated > 0 and self.sm is None


@dataclass(frozen=True)
class UsageChart:
    """Steps of equal length `step` in [begins, ends), in `unit`: "%" of what is held, or "GPUs".

    `shown` are the extra lines asked for; `sliced` says that instances are held, of which nvidia-smi knows
    nothing.
    """

    steps: Sequence[Use]
    begins: datetime
    ends: datetime
    step: timedelta
    unit: str = "GPUs"
    shown: frozenset[str] = frozenset()
    sliced: bool = False

    @property
    def lines(self) -> dict[str, str]:
        """The lines drawn, in order, with their names."""
        return LINES | {key: name for key, name in (EXTRA | OF_ONE).items() if key in self.shown}

    @property
    def is_empty(self) -> bool:
        """Nothing was allocated at any time."""
        return not any(step.allocated > 0 for step in self.steps)

    @property
    def words(self) -> str:
        """The conclusion, also the text alternative, of the time that was held and seen: one base for all."""
        if self.is_empty:
            return "No allocation"
        seen = [each for each in self.steps if each.sm is not None]
        if not seen:
            held = "" if self.unit == "%" else f"{self._said('allocated', self.steps)}; "
            return f"{held[:1].upper()}{held[1:]}no telemetry: what it did is unknown"
        parts = [] if self.unit == "%" else [self._said("allocated", seen)]
        said = ", ".join([*parts, *self._compared(seen)]) + self._limits(seen)
        return said if said.startswith("nvidia") else said[0].upper() + said[1:]

    def _compared(self, seen: Sequence[Use]) -> list[str]:
        """RULE: what nvidia-smi says stands beside SM active of the same devices in the same time."""
        measured = [each for each in seen if each.smi is not None]
        if not measured or not any(each.is_apart for each in seen):
            return [self._said("smi", seen), self._said("sm", seen)]
        of, says, beside = (self._mean(name, measured) for name in ("measured", "smi", "beside"))
        told = f"; on the {of} GPUs that nvidia-smi measures it says {says}, {LINES['sm']} {beside}"
        return [f"{self._said('sm', seen)}{told}"]

    def _said(self, line: str, steps: Sequence[Use]) -> str:
        mean = self._mean(line, steps)
        return f"{LINES[line]} {mean}" if mean else f"{LINES[line].removesuffix(' says')}: no figure"

    def _mean(self, name: str, steps: Sequence[Use]) -> str:
        known = [(value, self._weight(each)) for each in steps if (value := getattr(each, name)) is not None]
        whole = sum(weight for _, weight in known)
        return figure(sum(value * weight for value, weight in known) / whole, self.unit) if whole else ""

    def _weight(self, step: Use) -> float:
        """A step in percent weighs as much as was held and seen in it; in devices all weigh the same."""
        if self.unit != "%":
            return 1.0
        return step.allocated * (1.0 if step.coverage is None else step.coverage)

    def _limits(self, seen: Sequence[Use]) -> str:
        held = sum(each.allocated for each in self.steps)
        covered = sum(each.allocated * (each.coverage if each.coverage is not None else 1) for each in seen)
        return (
            "" if covered > 0.98 * held else f"; covers {figure(100 * covered / held, '%')} of the time held"
        )


@dataclass(frozen=True)
class Slice:
    """A part of a bar: its class, its word, and its size in any unit."""

    kind: str
    word: str
    size: float


def share_bar(slices: Sequence[Slice], words: str) -> str:
    """Parts of one whole from the left, in their order; `words` is the conclusion."""
    whole = sum(each.size for each in slices)
    svg = Element("svg", {"class": "picture share", "width": "100%", "height": "14", "role": "img"})
    svg.set("aria-label", words)
    place = 0.0
    for each in slices if whole > 0 else ():
        if each.size > 0:
            rect = SubElement(svg, "rect", {"class": each.kind, "x": percent(place, whole), "y": "1"})
            rect.set("width", percent(each.size, whole))
            rect.set("height", "12")
        place += each.size
    return _text(svg)


def figure(value: float, unit: str) -> str:
    """`98 %`, `0.4 %`, or `17.3` GPUs."""
    if unit == "%":
        return f"{value:.1f} %" if 0 < value < 0.95 else f"{value:.0f} %"
    return f"{value:,.1f}"


def usage_chart(chart: UsageChart) -> str:
    """Step line allocated, dashed nvidia-smi, thick SM active; gaps hatched; names at its end."""
    top = _top(chart)
    frame = Element("div", {"class": "usage-plot", "tabindex": "0", "role": "group"})
    frame.set("aria-label", "Use over time; the left and right arrow keys read it out")
    frame.append(scale(top, chart.unit))
    frame.append(_plot(chart, top))
    ends = [] if chart.is_empty else _ends(chart)
    frame.append(end_labels([(line, words, _high(last, top)) for line, words, last in ends]))
    if ends:
        frame.append(end_list(ends))
    return _text(frame)


def usage_table(chart: UsageChart, caption: str) -> str:
    """The same figures in words, newest last: the text alternative, and what the readout line reads."""
    table = Element("table", {"class": "cards usage-table"})
    SubElement(table, "caption", {"class": "visually-hidden"}).text = caption
    row = SubElement(SubElement(table, "thead"), "tr")
    names = [name[0].upper() + name[1:] for name in (*chart.lines.values(), "covered")]
    SubElement(row, "th", {"scope": "col"}).text = "From"
    for name in names:
        SubElement(row, "th", {"scope": "col", "class": "figure"}).text = name
    # As text, since it is only numbers: an element for each of some hundred cells costs more.
    return _text(table).replace("</table>", f"<tbody>{_rows(chart, names)}</tbody></table>")


def _rows(chart: UsageChart, names: Sequence[str]) -> str:
    """Nothing but our own words, times and numbers is in them."""
    told = "%-d %b %H:%M" if chart.ends - chart.begins > timedelta(days=1) else "%H:%M"
    cells = [f'<td class="figure" data-label="{name}">' for name in names]
    drawn, lines = [], list(chart.lines)
    for each in chart.steps:
        coverage = "-" if each.coverage is None else figure(100 * each.coverage, "%")
        texts = [*(_cell(each, line, chart.unit) for line in lines), coverage]
        row = "".join(f"{cell}{text}</td>" for cell, text in zip(cells, texts, strict=True))
        moment = f'<time datetime="{each.at.isoformat()}">{each.at:{told}}</time>'
        drawn.append(f'<tr><th scope="row">{moment}</th>{row}</tr>')
    return "".join(drawn)


def _cell(step: Use, line: str, unit: str) -> str:
    value = getattr(step, line)
    if value is None:
        return "unknown" if step.allocated > 0 else "-"
    of = f" of {figure(step.measured, unit)}" if line == "smi" and step.is_apart and step.measured else ""
    return f"{figure(value, unit)}{of}"


def _top(chart: UsageChart) -> float:
    """The axis ends at 100 %, or at a round number of GPUs above everything drawn."""
    if chart.unit == "%":
        return 100.0
    drawn = [
        value for each in chart.steps for key in chart.lines if (value := getattr(each, key)) is not None
    ]
    return round_up(max(drawn, default=0.0))


def round_up(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 times a power of ten that is not below the value; at least 1."""
    if value <= 1:
        return 1.0
    size = 10.0 ** floor(log10(value))
    return next(size * each for each in (1, 2, 4, 5, 8, 10) if size * each >= value - 1e-9)


def scale(top: float, unit: str = "") -> Element:
    """What the axis says at 0, in the middle and at its end."""
    svg = Element("svg", {"class": "usage-scale", "height": str(HEIGHT), "aria-hidden": "true"})
    for part in (0.0, 0.5, 1.0):
        place = FLOOR - part * (FLOOR - TOP)
        label = SubElement(svg, "text", {"x": "100%", "y": f"{place + 4:.1f}", "text-anchor": "end"})
        label.text = f"{top * part:g}" + (" %" if unit == "%" and part == 1 else "")
    return svg


def _plot(chart: UsageChart, top: float) -> Element:
    svg = Element("svg", {"class": "usage", "width": "100%", "height": str(HEIGHT), "role": "img"})
    svg.set("aria-label", chart.words)
    for part in (0.0, 0.5, 1.0):
        y = f"{FLOOR - part * (FLOOR - TOP):.1f}"
        SubElement(svg, "line", {"class": "u-grid", "x1": "0", "x2": "100%", "y1": y, "y2": y})
    _gaps(svg, chart)
    inner = SubElement(svg, "svg", {"x": "0", "y": str(TOP), "width": "100%", "height": str(FLOOR - TOP)})
    inner.set("viewBox", "0 0 1000 100")
    inner.set("preserveAspectRatio", "none")
    place = _places(chart, top)
    _area(inner, chart, place)
    for line in chart.lines:
        drawn = _path([(each.at, getattr(each, line)) for each in chart.steps], chart.step, place)
        if drawn:
            SubElement(inner, "path", {"class": f"u-{line}", "d": drawn})
    times(svg, chart.begins, chart.ends)
    if chart.is_empty:
        label = SubElement(svg, "text", {"class": "in", "x": "50%", "y": "92", "text-anchor": "middle"})
        label.text = "No allocation"
    return svg


def _places(chart: UsageChart, top: float) -> Callable[[datetime, float], str]:
    whole = (chart.ends - chart.begins).total_seconds()

    def place(at: datetime, value: float) -> str:
        x = 1000 * min(1.0, max(0.0, (at - chart.begins).total_seconds() / whole))
        return f"{x:.1f} {100 - 100 * min(value / top, 1):.2f}"

    return place


def _path(points: Sequence[Point], step: timedelta, place: Callable[[datetime, float], str]) -> str:
    """Level over each step, so that the line claims nothing between two figures; None breaks it."""
    drawn, before = [], None
    for at, value in points:
        if value is None:
            before = None
            continue
        if before != at:
            drawn.append(f"M{place(at, value)}")
        else:
            drawn.append(f"L{place(at, value)}")
        drawn.append(f"L{place(at + step, value)}")
        before = at + step
    return "".join(drawn)


def _area(svg: Element, chart: UsageChart, place: Callable[[datetime, float], str]) -> None:
    line = _path([(each.at, each.allocated) for each in chart.steps], chart.step, place)
    if line:
        first, last = chart.steps[0], chart.steps[-1]
        end, start = place(last.at + chart.step, 0), place(first.at, 0)
        SubElement(svg, "path", {"class": "u-area", "d": f"{line}L{end}L{start}Z"})


def _gaps(svg: Element, chart: UsageChart) -> None:
    whole = (chart.ends - chart.begins).total_seconds()
    for is_gap, run in groupby(chart.steps, key=lambda each: each.is_gap):
        if not is_gap:
            continue
        held = list(run)
        begins = (held[0].at - chart.begins).total_seconds()
        size = (held[-1].at + chart.step - held[0].at).total_seconds()
        rect = SubElement(svg, "rect", {"class": "p-unknown", "x": percent(begins, whole), "y": str(TOP)})
        rect.set("width", percent(min(size, whole - begins), whole))
        rect.set("height", str(FLOOR - TOP))
        if size / whole > 0.12:
            middle = percent(begins + size / 2, whole)
            label = SubElement(svg, "text", {"class": "in", "x": middle, "y": "60", "text-anchor": "middle"})
            label.text = "no telemetry"


def times(svg: Element, begins: datetime, ends: datetime) -> None:
    """Round moments below the axis."""
    whole = (ends - begins).total_seconds()
    for at, words in ticks(begins, ends):
        part = (at - begins).total_seconds() / whole
        x = percent(part, 1)
        SubElement(svg, "line", {"class": "u-tick", "x1": x, "x2": x, "y1": str(FLOOR), "y2": str(FLOOR + 4)})
        anchor = "start" if part < 0.04 else "end" if part > 0.96 else "middle"
        label = SubElement(svg, "text", {"x": x, "y": str(FLOOR + 20), "text-anchor": anchor})
        label.text = words


def ticks(begins: datetime, ends: datetime) -> list[tuple[datetime, str]]:
    """Round UTC moments, at most seven: quarters of an hour, hours, or days with their names."""
    span = ends - begins
    sizes = ((2, 15, 0), (7, 60, 0), (14, 120, 0), (30, 360, 0), (200, 1440, 1), (10_000, 10_080, 1))
    minutes, by_day = next((m, day) for hours, m, day in sizes if span <= timedelta(hours=hours))
    size = timedelta(minutes=minutes)
    midnight = begins.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + size * ceil((begins - midnight) / size)
    found = []
    while first < ends:
        found.append(
            (first, f"{first:%-d %b}" if by_day or not (first.hour or first.minute) else f"{first:%H:%M}")
        )
        first += size
    return found


def _ends(chart: UsageChart) -> list[tuple[str, str, float | None]]:
    """Per line its class, its words, and its last figure."""
    found: list[tuple[str, str, float | None]] = []
    for line, name in chart.lines.items():
        last = next((each for each in reversed(chart.steps) if getattr(each, line) is not None), None)
        if last is None:
            reason = "no figure" if line != "smi" or not chart.sliced else "no figure on slices"
            found.append((line, f"{name.removesuffix(' says')}: {reason}", None))
        else:
            found.append((line, f"{name} {_cell(last, line, chart.unit)}", getattr(last, line)))
    return found


def _high(value: float | None, top: float) -> float | None:
    return None if value is None else FLOOR - min(value / top, 1) * (FLOOR - TOP)


def end_labels(ends: Sequence[tuple[str, str, float | None]]) -> Element:
    """What each line is, beside its end: (class, words, height in pixels; None: it has no end)."""
    svg = Element("svg", {"class": "usage-ends", "height": str(HEIGHT), "aria-hidden": "true"})
    wanted = [FLOOR if at is None else at for _, _, at in ends]
    for (line, words, at), y in zip(ends, spread(wanted, apart=APART, low=TOP, high=FLOOR), strict=True):
        if at is not None:
            place = {"x1": "0", "x2": "16", "y1": f"{at:.1f}", "y2": f"{y:.1f}"}
            SubElement(svg, "line", {"class": f"u-{line}", **place})
        label = SubElement(svg, "text", {"class": f"u-name-{line}", "x": "22", "y": f"{y + 4:.1f}"})
        label.text = words
    return svg


def end_list(ends: Iterable[tuple[str, str, float | None]]) -> Element:
    """The words at the ends of lines once more below the picture, where a phone has no room beside it."""
    listed = Element("ul", {"class": "key usage-key"})
    for line, words, _last in ends:
        item = SubElement(listed, "li")
        sample = SubElement(item, "svg", {"aria-hidden": "true"})
        SubElement(sample, "line", {"class": f"u-{line}", "x1": "0", "x2": "100%", "y1": "50%", "y2": "50%"})
        sample.tail = words
    return listed


def _text(element: Element) -> str:
    return tostring(element, encoding="unicode")
