"""The pictures of use, and figures of it in one form. No queries, no rules."""

from collections.abc import Sequence

from django import template
from django.utils.safestring import SafeString, mark_safe

from apps.web import pictures_bill, pictures_heat, pictures_usage

register = template.Library()


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
def share_bar(slices: Sequence[pictures_usage.Slice], words: str) -> SafeString:
    """Parts of one whole."""
    return mark_safe(pictures_usage.share_bar(slices, words))  # noqa: S308 - as above


@register.simple_tag
def bill_chart(bill: pictures_bill.TwoPrices) -> SafeString:
    """Picture (f)."""
    return mark_safe(pictures_bill.bill_chart(bill))  # noqa: S308 - as above


@register.filter
def hours(value: float) -> str:
    """GPU-hours: `3.5 h`; nothing is a dash."""
    return f"{value:,.1f} h" if value else "-"


@register.filter
def percent(value: float | None) -> str:
    """`81 %`; None is a dash."""
    return "-" if value is None else pictures_usage.figure(value, "%")
