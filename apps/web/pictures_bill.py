"""Picture (f), the two-price bill: each step starts where the last one ends. Pure: amounts in, markup out.

RULE: allocated - refunds = charged; charged - hoarded - zombie - idle - partly used - unknown = effective.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.web.charts import percent

ROW, BAND = 28, 18
ZERO = Decimal(0)


@dataclass(frozen=True)
class TwoPrices:
    """Money of a period, in cents or finer; the parts sum to what is charged."""

    allocated: Decimal
    refunded: Decimal
    hoarded: Decimal
    zombie: Decimal
    idle: Decimal
    partly: Decimal
    unknown: Decimal
    effective: Decimal
    currency: str

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.allocated - self.refunded

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return self.hoarded + self.zombie + self.idle + self.partly

    @property
    def is_empty(self) -> bool:
        """Nothing was allocated."""
        return not self.allocated

    @property
    def adds_up(self) -> bool:
        """The sum check: the parts are the whole, to the last decimal."""
        return self.charged == self.effective + self.waste + self.unknown

    @property
    def words(self) -> str:
        """The conclusion, which is also the text alternative."""
        if self.is_empty:
            return "Nothing charged"
        known = f"{self.effective:,.2f} effective, {self.waste:,.2f} waste, {self.unknown:,.2f} unknown"
        return f"{self.charged:,.2f} {self.currency} charged: {known}"

    @property
    def steps(self) -> list["Step"]:
        """The rows of picture and table, from top to bottom."""
        taken = [
            ("hoarded", self.hoarded),
            ("zombie", self.zombie),
            ("idle", self.idle),
            ("partly", self.partly),
            ("unknown", self.unknown),
        ]
        found = [Step("total", "Allocated", self.allocated, ZERO, self.allocated)]
        found.append(Step("refunds", "Refunds", -self.refunded, self.charged, self.allocated))
        found.append(Step("total", "Charged", self.charged, ZERO, self.charged))
        end = self.charged
        for kind, money in taken:
            found.append(Step(kind, WORDS[kind], -money, end - money, end))
            end -= money
        return [*found, Step("effective", "Effective", self.effective, ZERO, self.effective)]


WORDS = {
    "hoarded": "Hoarded",
    "zombie": "Zombie",
    "idle": "Idle",
    "partly": "Partly used",
    "unknown": "Unknown",
}


@dataclass(frozen=True)
class Step:
    """One row: `money` is added or taken, its bar lies between `low` and `high` on the axis of money."""

    kind: str
    word: str
    money: Decimal
    low: Decimal
    high: Decimal

    @property
    def css(self) -> str:
        """Its class: what is shared with the bars of waste elsewhere, or a sum's own."""
        return f"b-{self.kind}" if self.kind in ("total", "refunds") else f"m-{self.kind}"

    @property
    def is_total(self) -> bool:
        """A sum, not a part."""
        return self.kind in ("total", "effective")


def bill_chart(bill: TwoPrices) -> str:
    """Bars on one axis from 0 to what was allocated, with a line from the end of each to the next."""
    steps: Sequence[Step] = [] if bill.is_empty else bill.steps
    height = ROW * max(1, len(steps))
    svg = Element("svg", {"class": "picture bill", "width": "100%", "height": str(height), "role": "img"})
    svg.set("aria-label", bill.words)
    if not steps:
        SubElement(svg, "text", {"x": "0", "y": str(BAND)}).text = "Nothing charged"
    for number, step in enumerate(steps):
        top = number * ROW + (ROW - BAND) // 2
        _bar(svg, step, bill.allocated, top)
        if number + 1 < len(steps):
            # The next bar starts where this one ends: at its low end, or at a sum's own.
            at = step.high if step.is_total else step.low
            x = percent(at, bill.allocated)
            # Where nothing is drawn, the line goes through.
            begins = top + (BAND if step.high > step.low else 0)
            line = {"class": "b-link", "x1": x, "x2": x, "y1": str(begins), "y2": str(top + ROW)}
            SubElement(svg, "line", line)
    return tostring(svg, encoding="unicode")


def _bar(svg: Element, step: Step, whole: Decimal, top: int) -> None:
    rect = SubElement(svg, "rect", {"class": step.css, "x": percent(step.low, whole), "y": str(top)})
    rect.set("width", percent(step.high - step.low, whole))
    rect.set("height", str(BAND))
