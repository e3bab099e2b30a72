"""What of an audit event may be shown. Pure.

RULE: nobody reads a secret out of the record. Its writers leave secrets out; what people typed where none
belongs (a variable's value, a token in a reason) is in the record for good, and hidden where it is shown.
"""

from collections.abc import Mapping
from typing import Any

from apps.accounts.scrub import HIDDEN, Scrub

_SCRUB = Scrub(())
VALUED = frozenset({"env"})
"""Members whose names are shown and whose values are not."""
KEPT = frozenset({"password", "passwd", "token", "api_key", "private_key"})
"""Members that are never shown."""


def shown(value: Any, under: str = "") -> Any:
    """A value of the record, or all that an event changed, without secrets; `under` names where it stands."""
    if isinstance(value, Mapping):
        return {name: _member(name, item, under) for name, item in value.items()}
    if isinstance(value, list):
        return [shown(item, under) for item in value]
    return _SCRUB(value) if isinstance(value, str) else value


def _member(name: str, value: Any, under: str) -> Any:
    if value is None or not (under in VALUED or name.lower() in KEPT):
        return shown(value, name)
    return [None if item is None else HIDDEN for item in value] if isinstance(value, list) else HIDDEN
