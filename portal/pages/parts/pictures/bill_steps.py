"""Picture (f), the two-price bill: each step starts where the last one ends. Pure: amounts in, markup out.

RULE: allocated - refunds = charged; charged - each cause of waste - unknown = effective.
"""

from collections.abc import Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.metering.billing.rules.two_prices import Step, TwoPrices
from portal.pages.parts.pictures.charts import percent

ROW, BAND = 28, 18


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
