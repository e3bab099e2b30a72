"""A finding in one sentence, as the pages and REST say it. Reads only."""

from apps.metering import finding_selectors as selectors
from apps.metering import finding_words as words
from apps.metering.countdown import STOPPED
from apps.metering.models import Finding


def message_of(row: Finding) -> str:
    """What, why in figures, what it costs."""
    said = selectors.said_of(row)
    if row.kind in STOPPED:
        return words.headline(said)
    return f"{said.name}: {words.MEANINGS[said.kind]}"
