"""A finding in one sentence, as the pages and REST say it. Reads only."""

from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import STOPPED
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.models import Finding


def message_of(row: Finding) -> str:
    """What, why in figures, what it costs."""
    said = selectors.said_of(row)
    if row.kind in STOPPED:
        return words.headline(said)
    return f"{said.name}: {words.MEANINGS[said.kind]}"
