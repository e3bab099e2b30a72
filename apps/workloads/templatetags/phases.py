"""How a workload's phase looks; the enum owns icon, word and colour."""

from django import template
from django.utils.html import format_html

from apps.web.templatetags.page import icon
from apps.workloads.specs import Phase

register = template.Library()


@register.simple_tag
def status(phase: str, size: str = "") -> str:
    """Icon and word, never colour alone."""
    look = Phase(phase)
    return format_html(
        '<span class="status tone-{} {}">{}{}</span>', look.tone, size, icon(look.icon), look.label
    )
