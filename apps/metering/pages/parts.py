"""Parts that are made only when they are shown, and that fail alone."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from apps.errors import NotFound

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
        except Exception:
            log.exception("A part of a page could not be made.")
            return Failed()

    return made
