"""Tags for the picture of lending and borrowing."""

from collections.abc import Sequence
from datetime import timedelta

from django import template
from django.utils.safestring import SafeString, mark_safe

from portal.pages.parts.pictures import lending_columns
from portal.pages.parts.pictures.lending_columns import Column

register = template.Library()


@register.simple_tag
def lending_chart(columns: Sequence[Column], words: str) -> SafeString:
    """One column a step."""
    return mark_safe(lending_columns.lending_chart(columns, words))  # noqa: S308 - ElementTree escaped it


@register.simple_tag
def lending_table(columns: Sequence[Column], caption: str, step: timedelta) -> SafeString:
    """The same as a table."""
    return mark_safe(lending_columns.lending_table(columns, caption, step))  # noqa: S308 - as above
