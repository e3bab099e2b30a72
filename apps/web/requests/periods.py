"""Months and moments in a query or body: read here alone, so that none leaves what can be reckoned with."""

from datetime import MAXYEAR, date, datetime

from apps.web.problems.refusals import BadParameter
from apps.web.requests.cursors import instant

FIRST_YEAR = 1970


def month_named(text: str) -> date | None:
    """The month of a text such as 2026-10; None for every other text, for months before 1970, and for 9999,
    whose end no time can tell.
    """
    try:
        found = date.fromisoformat(f"{text}-01") if len(text) == len("2026-10") else None
    except ValueError:
        return None
    return found if found and FIRST_YEAR <= found.year < MAXYEAR else None


def month_asked(name: str, text: str) -> date:
    """The same of the query parameter of this name; raises BadParameter."""
    found = month_named(text)
    if found is None:
        raise BadParameter(name, f"{name} is written 2026-10, from {FIRST_YEAR}-01 to {MAXYEAR - 1}-12.")
    return found


def moment_asked(name: str, text: str) -> datetime:
    """A time with its zone, in UTC, of the query parameter of this name; raises BadParameter."""
    found = instant(text)
    if found is None:
        raise BadParameter(name, f"{name} is a time from {FIRST_YEAR} on, such as 2026-11-20T09:00:00Z.")
    return found
