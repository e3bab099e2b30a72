"""A curve as high as a line of text: what a row of a list did lately. Pure: values in, markup out.

The figure beside it says the same in words, so assistive technology is not told of it twice.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring


def sparkline(values: Sequence[float | None]) -> str:
    """A step per value between 0 and 1 from the left; what is unknown is a gap, never 0."""
    svg = Element("svg", {"class": "spark", "viewBox": f"0 0 {len(values)} 1", "preserveAspectRatio": "none"})
    svg.set("aria-hidden", "true")
    SubElement(svg, "path", {"class": "u-grid", "d": f"M0 1H{len(values)}"})
    SubElement(svg, "path", {"class": "u-sm", "d": _path(values)})
    return tostring(svg, encoding="unicode")


def _path(values: Sequence[float | None]) -> str:
    """A line over each value, joined to the next one that is known."""
    drawn, is_joined = [], False
    for at, value in enumerate(values):
        if value is not None:
            height = f"{1 - value:.2f}H{at + 1}"
            drawn.append(f"V{height}" if is_joined else f"M{at} {height}")
        is_joined = value is not None
    return "".join(drawn)
