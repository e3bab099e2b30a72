"""How a workload's phase looks; the enum owns icon, word and colour."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join

from apps.workloads.specs import Badge, Phase
from portal.pages.templatetags.page import icon

register = template.Library()


@register.simple_tag
@lru_cache(maxsize=64)
def status(phase: str, size: str = "") -> str:
    """Icon and word, never colour alone."""
    look = Phase(phase)
    return format_html(
        '<span class="status tone-{} {}">{}{}</span>', look.tone, size, icon(look.icon), look.label
    )


@register.simple_tag
def badges(conditions: Iterable[Any]) -> str:
    """What metering found, beside the phase: the most telling one, why on hover."""
    held = {each["type"]: each for each in conditions if each.get("status") == "True"}
    shown = [badge for badge in (Badge.ZOMBIE, Badge.HOARDER, Badge.IDLE) if badge in held][:1]
    return format_html_join(
        "",
        ' <span class="status tone-{}" title="{}">{}{}</span>',
        ((badge.tone, held[badge]["message"], icon(badge.icon), badge.label) for badge in shown),
    )
