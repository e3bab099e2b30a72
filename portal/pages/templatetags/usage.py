"""The pictures of use, and figures of it in one form. No queries, no rules."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.metering.billing.rules import two_prices
from portal.pages.parts.pictures import bill_steps, burn_down, usage_curves
from portal.pages.parts.pictures import heat_map as heat_map_page
from portal.pages.parts.pictures import sparkline as curve
from portal.pages.templatetags.page import link

register = template.Library()


class HasHours(Protocol):
    """Something with hours by column, and GPU-hours of waste."""

    @property
    def name(self) -> str:
        """Head of its row."""
        ...

    @property
    def wasted(self) -> float:
        """In the last column."""
        ...

    def columns(self) -> Sequence[tuple[str, float]]:
        """Name and hours of those between."""
        ...


class HasMoney(Protocol):
    """A line of a bill, with where its name and its quantity lead."""

    @property
    def name(self) -> str:
        """Head of its row."""
        ...

    @property
    def url(self) -> str:
        """Behind the name; "" where nothing is there."""
        ...

    @property
    def quantity(self) -> str:
        """With its unit."""
        ...

    @property
    def held_url(self) -> str:
        """Behind the quantity."""
        ...

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        """Head and words of every other column, the same heads in each line."""
        ...


@register.simple_tag
def usage_chart(chart: usage_curves.UsageChart) -> SafeString:
    """Picture (a)."""
    return mark_safe(usage_curves.usage_chart(chart))  # noqa: S308 - ElementTree escaped it


@register.simple_tag
def usage_table(chart: usage_curves.UsageChart, caption: str) -> SafeString:
    """The figures of picture (a)."""
    return mark_safe(usage_curves.usage_table(chart, caption))  # noqa: S308 - as above


@register.simple_tag
def sparkline(ratios: Sequence[float | None]) -> SafeString:
    """What one row did lately."""
    return mark_safe(curve.sparkline(ratios))  # noqa: S308 - as above


@register.simple_tag
def heat_map(heat: heat_map_page.HeatMap) -> SafeString:
    """Picture (d)."""
    return mark_safe(heat_map_page.heat_map(heat))  # noqa: S308 - as above


@register.simple_tag
def heat_key() -> Sequence[tuple[str, str]]:
    """Class and words of every state of picture (d)."""
    return heat_map_page.heat_key()


@register.simple_tag
def hours_rows(rows: Iterable[HasHours]) -> SafeString:
    """Rows of hours of a table, as text: a template resolves two variables for each of its cells."""
    drawn = []
    for row in rows:
        columns = [*row.columns(), ("GPU-hours wasted", row.wasted)]
        cells = (f'<td data-label="{escape(name)}" class="figure">{hours(h)}</td>' for name, h in columns)
        drawn.append(f'<tr><th scope="row">{escape(row.name)}</th>{"".join(cells)}</tr>')
    return mark_safe("".join(drawn))  # noqa: S308 - escaped above


@register.simple_tag
def bill_rows(lines: Iterable[HasMoney]) -> SafeString:
    """Lines of a bill, as text: see `hours_rows`."""
    drawn, opens = [], dict[str, str]()
    for line in lines:
        opens = opens or {head: f'<td data-label="{escape(head)}" class="figure">' for head, _ in line.cells}
        name, quantity = link(line.url, line.name), link(line.held_url, line.quantity)
        cells = "".join(f"{opens[head]}{escape(value)}</td>" for head, value in line.cells)
        first = f'<th scope="row">{name}</th><td data-label="Quantity" class="figure">{quantity}</td>'
        drawn.append(f"<tr>{first}{cells}</tr>")
    return mark_safe("".join(drawn))  # noqa: S308 - escaped above


@register.simple_tag
def share_bar(slices: Sequence[usage_curves.Slice], words: str) -> SafeString:
    """Parts of one whole."""
    return mark_safe(usage_curves.share_bar(slices, words))  # noqa: S308 - as above


@register.simple_tag
def bill_chart(bill: two_prices.TwoPrices) -> SafeString:
    """Picture (f)."""
    return mark_safe(bill_steps.bill_chart(bill))  # noqa: S308 - as above


@register.simple_tag
def burn_chart(chart: burn_down.BurnChart) -> SafeString:
    """The burn-down of a budget."""
    return mark_safe(burn_down.burn_chart(chart))  # noqa: S308 - as above


@register.filter
def hours(value: float) -> str:
    """GPU-hours: `3.5 h`; nothing is a dash."""
    return f"{value:,.1f} h" if value else "-"


@register.filter
def percent(value: float | None) -> str:
    """`81 %`; None is a dash."""
    return "-" if value is None else usage_curves.figure(value, "%")
