"""The portal's pictures as SVG markup, and the countdown's words. Pure: plain values in, text out.

Built with ElementTree, so that no name can break out of the markup. Colours come by class from the
stylesheet; there is no `style` attribute (the content security policy forbids it). Places are in percent, so
text never scales.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.web.shapes.durations import duration

BAR = 18
PENDING = 6
LANE = 20
SOON = timedelta(minutes=60)
NOW = timedelta(minutes=10)
Number = TypeVar("Number", float, Decimal)


def percent(part: Number, whole: Number, *, digits: int = 3) -> str:
    """A place or a length in a picture: that part of the whole."""
    return f"{100 * part / whole:.{digits}f}%"


@dataclass(frozen=True)
class QuotaBar:
    """One offer of one tenant, in devices. `used` counts what the tenant runs, borrowed ones included.

    `lent` are devices of this tenant's guarantee that others run on; a limit of None means no limit.
    """

    offer: str
    guaranteed: int
    used: int = 0
    lent: int = 0
    borrow_limit: int | None = 0
    pending: int = 0

    @property
    def own(self) -> int:
        """Devices run within the guarantee."""
        return min(self.used, self.guaranteed)

    @property
    def borrowed(self) -> int:
        """Devices run beyond the guarantee, within what may be borrowed."""
        beyond = max(0, self.used - self.guaranteed)
        return beyond if self.borrow_limit is None else min(beyond, self.borrow_limit)

    @property
    def over(self) -> int:
        """Devices that run although guarantee and limit were cut below them; running work stays."""
        return max(0, self.used - self.own - self.borrowed)

    @property
    def free(self) -> int:
        """Guaranteed devices that nobody runs on."""
        return max(0, self.guaranteed - self.own - self.lent)

    @property
    def words(self) -> str:
        """The bar's conclusion, which is also its text alternative."""
        if not self.guaranteed and not self.used and not self.borrow_limit:
            return "Nothing guaranteed"
        lent = f" + {self.lent} lent" if self.lent else ""
        parts = [f"{self.used} used{lent} of {self.guaranteed}"]
        if self.borrow_limit:
            parts.append(f"may borrow {self.borrow_limit}")
        if self.pending:
            parts.append(f"{self.pending} {'waits' if self.pending == 1 else 'wait'}")
        if self.over:
            parts.append(f"over by {self.over}: running work stays")
        return "; ".join(parts)


def quota_bar(bar: QuotaBar) -> str:
    """Guarantee, use, lending, borrowing and what waits, on one axis from 0; below it what is pending."""
    room = (bar.borrow_limit or 0) - bar.borrowed
    end = bar.own + bar.lent + bar.free + bar.borrowed + bar.over
    total = max(end + max(room, 0), bar.used + bar.pending, 1)
    svg = _picture(BAR + PENDING + 6, bar.words)
    place = 0
    for kind, size in (
        ("own", bar.own),
        ("lent", bar.lent),
        ("free", bar.free),
        ("borrowed", bar.borrowed),
        ("over", bar.over),
        ("room", max(room, 0)),
    ):
        if size:
            _rect(svg, f"p-{kind}", (place, size, total), (1, BAR))
        place += size
    if bar.pending:
        _rect(svg, "p-pending", (bar.used, bar.pending, total), (BAR + 4, PENDING))
    if bar.guaranteed and bar.guaranteed < total:
        x = percent(bar.guaranteed, total)
        SubElement(svg, "line", {"class": "p-tick", "x1": x, "x2": x, "y1": "-2", "y2": str(BAR + 4)})
    return _text(svg)


@dataclass(frozen=True)
class BudgetBar:
    """One month's budget: what is spent of it, in any unit; a limit of None is no limit. `words` is the
    conclusion.
    """

    spent: float
    soft: float | None
    hard: float | None
    words: str


def budget_bar(bar: BudgetBar) -> str:
    """What is spent from 0, what is left to the hard limit (else the soft one), what lies beyond it, and a
    tick at the soft limit.
    """
    limit = bar.hard if bar.hard is not None else bar.soft or 0.0
    total = max(limit, bar.spent, 1e-9)
    svg = _picture(BAR + 6, bar.words)
    within = min(bar.spent, limit)
    for kind, start, end in (
        ("own", 0.0, within),
        ("free", within, limit),
        ("over", limit, bar.spent),
    ):
        if end > start:
            _rect(svg, f"p-{kind}", (start, end - start, total), (1, BAR))
    if bar.soft is not None and bar.soft < total:
        x = percent(bar.soft, total)
        SubElement(svg, "line", {"class": "p-tick", "x1": x, "x2": x, "y1": "-2", "y2": str(BAR + 4)})
    return _text(svg)


@dataclass(frozen=True)
class Block:
    """One MIG instance (or a whole GPU) on its memory slices; `holder` is empty while it is free."""

    profile: str
    start: int
    size: int
    compute: int
    holder: str = ""


def mig_layout(blocks: Sequence[Block], *, slices: int = 8) -> str:
    """One GPU's instances over its memory slices, lettered for the list beside it. No block: unknown."""
    used = [block for block in blocks if block.holder]
    words = f"{len(blocks)} instances, {len(used)} in use" if blocks else "layout unknown"
    svg = _picture(2 * LANE + 4, words)
    if not blocks:
        _rect(svg, "p-unknown", (0, 1, 1), (1, 2 * LANE))
        return _text(svg)
    _cells(svg, slices)
    for letter, block in zip(letters(), sorted(blocks, key=lambda b: b.start), strict=False):
        _rect(
            svg, "p-used" if block.holder else "p-room", (block.start, block.size, slices), (2, 2 * LANE - 2)
        )
        label = SubElement(svg, "text", {"class": "in", "x": percent(block.start + block.size / 2, slices)})
        label.set("y", str(LANE + 4))
        label.set("text-anchor", "middle")
        label.text = letter
    return _text(svg)


def letters() -> Iterable[str]:
    """A to Z, then a to z: the keys of a layout's blocks."""
    return iter("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Countdown:
    """Time left until a deadline: the words beside the clock and how loud they are ("", soon, now)."""

    deadline: datetime
    left: str
    loudness: str


def countdown(deadline: datetime, *, now: datetime) -> Countdown:
    """Quiet above 60 minutes, soon from 60, now from 10; past the deadline it is stopping."""
    left = deadline - now
    if left <= timedelta(0):
        return Countdown(deadline, ": stopping", "now")
    loudness = "now" if left <= NOW else "soon" if left <= SOON else ""
    return Countdown(deadline, f", in {duration(left.total_seconds(), up=True)}", loudness)


def _cells(svg: Element, slices: int) -> None:
    for index in range(slices):
        _rect(svg, "p-cell", (index, 1, slices), (2, 2 * LANE - 2))


def _picture(height: int, words: str) -> Element:
    svg = Element("svg", {"class": "picture", "width": "100%", "height": str(height), "role": "img"})
    svg.set("aria-label", words)
    return svg


def _rect(svg: Element, kind: str, span: tuple[float, float, float], lane: tuple[int, int]) -> None:
    start, size, total = span
    rect = SubElement(svg, "rect", {"class": kind, "x": percent(start, total), "y": str(lane[0])})
    rect.set("width", percent(size, total))
    rect.set("height", str(lane[1]))
    rect.set("rx", "2")


def _text(svg: Element) -> str:
    return tostring(svg, encoding="unicode")
