"""Which checks saw what the record says, which differ as listed, and which differ without leave.

A difference that no longer exists counts as wrong too: the list must tell the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import yaml

from tests.contract.record import Record
from tests.contract.runner import Outcome

PLACE = Path(__file__).with_name("differences.yaml")
MOST = 10


@dataclass(frozen=True)
class Difference:
    """One listed difference: the check, why the sandbox differs, what a user would notice."""

    check: str
    reason: str
    notice: str


def differences(place: Path = PLACE) -> dict[str, Difference]:
    """The list, by check."""
    entries = yaml.safe_load(place.read_text()) or []
    return {entry["check"]: Difference(**entry) for entry in entries}


def complaints(
    outcomes: dict[str, Outcome], record: Record, listed: dict[str, Difference] | None = None
) -> dict[str, str]:
    """What is wrong, by check; empty when every check saw what is recorded or listed."""
    allowed = listed or {}
    found = {}
    for name, outcome in outcomes.items():
        told = _told(name, outcome, record)
        if name in allowed and not told:
            found[name] = "is listed in differences.yaml and no longer differs"
        elif told and name not in allowed:
            found[name] = told
    return found


def _told(name: str, outcome: Outcome, record: Record) -> str:
    if outcome.failure:
        return outcome.failure
    if name not in record.observations:
        return "is not in recorded.json: record again on the real control plane"
    expected = record.observations[name]
    return "" if outcome.observation == expected else _diff(expected, outcome.observation)


def _diff(expected: Any, seen: Any) -> str:
    lines = unified_diff(_lines(expected), _lines(seen), "recorded", "seen", lineterm="", n=2)
    return "\n".join(lines)


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
