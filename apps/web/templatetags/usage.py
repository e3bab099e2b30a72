"""The pictures of use, and figures of it in one form. No queries, no rules."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.web import pictures_bill, pictures_burn, pictures_heat, pictures_usage

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


@register.simple_tag
def usage_chart(chart: pictures_usage.UsageChart) -> SafeString:
    """Picture (a)."""
    return mark_safe(pictures_usage.usage_chart(chart))  # noqa: S308 - ElementTree escaped it


@register.simple_tag
def usage_table(chart: pictures_usage.UsageChart, caption: str) -> SafeString:
    """The figures of picture (a)."""
    return mark_safe(pictures_usage.usage_table(chart, caption))  # noqa: S308 - as above


@register.simple_tag
def heat_map(heat: pictures_heat.HeatMap) -> SafeString:
    """Picture (d)."""
    return mark_safe(pictures_heat.heat_map(heat))  # noqa: S308 - as above


@register.simple_tag
def heat_key() -> Sequence[tuple[str, str]]:
    """Class and words of every state of picture (d)."""
    return pictures_heat.heat_key()


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
def share_bar(slices: Sequence[pictures_usage.Slice], words: str) -> SafeString:
    """Parts of one whole."""
    return mark_safe(pictures_usage.share_bar(slices, words))  # noqa: S308 - as above


@register.simple_tag
def bill_chart(bill: pictures_bill.TwoPrices) -> SafeString:
    """Picture (f)."""
    return mark_safe(pictures_bill.bill_chart(bill))  # noqa: S308 - as above


@register.simple_tag
def burn_chart(chart: pictures_burn.BurnChart) -> SafeString:
    """The burn-down of a budget."""
    return mark_safe(pictures_burn.burn_chart(chart))  # noqa: S308 - as above


@register.filter
def hours(value: float) -> str:
    """GPU-hours: `3.5 h`; nothing is a dash."""
    return f"{value:,.1f} h" if value else "-"


@register.filter
def percent(value: float | None) -> str:
    """`81 %`; None is a dash."""
    return "-" if value is None else pictures_usage.figure(value, "%")
