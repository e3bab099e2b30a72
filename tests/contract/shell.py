"""What kubectl printed, made comparable: ages and column widths go, words stay."""

from __future__ import annotations

import re
from typing import Any

from tests.contract.api import Ran

_AGE = re.compile(r"(?<![\w.-])(\d+[dhms]){1,2}(?![\w.-])")
_UNKNOWN = re.compile(r"<unknown>|<invalid>")
_GAP = re.compile(r" {2,}|\t+")


def lines(text: str) -> list[str]:
    """The lines of an output, ages replaced and runs of blanks as one."""
    cleaned = (
        _UNKNOWN.sub("AGE", _AGE.sub("AGE", _GAP.sub("  ", line))).rstrip() for line in text.splitlines()
    )
    return [line for line in cleaned if line]


def told(ran: Ran) -> Any:
    """How a command ended and what it said."""
    seen: dict[str, Any] = {"code": ran.code}
    if ran.out.strip():
        seen["out"] = lines(ran.out)
    if ran.err.strip():
        seen["err"] = lines(ran.err)
    return seen
