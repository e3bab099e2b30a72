"""Page parts that are only made when they are shown and that fail alone; and the offset of a long list."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from django.http import QueryDict

from apps.errors import NotFound
from apps.web.stores import outage

log = logging.getLogger(__name__)


class Failed:
    """What stands in the place of a part that could not be made; the rest of the page stays."""

    failed = True


def part(make: Callable[[], Any]) -> Callable[[], Any]:
    """Called by the template when it comes to the part, once. RULE: whatever goes wrong is logged and shown
    as a problem box there; what may not be seen stays unseen.
    """

    @cache
    def made() -> Any:
        try:
            return make()
        except NotFound:
            raise
        except Exception as error:
            if not outage.noted(error):
                log.exception("A part of a page could not be made.")
            return Failed()

    return made


def skip_of(query: QueryDict) -> int:
    """`?skip=100`: how many rows of a list come before those shown; 0 for nonsense."""
    text = query.get("skip", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0
