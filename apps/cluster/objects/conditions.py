"""Kubernetes-style conditions as lists of plain dicts, the form that rows store and the API shows. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

SYNCED = "Synced"


class Condition(TypedDict):
    """One fact about a row: `status` is True, False or Unknown, `reason` a CamelCase word, `since` RFC 3339
    UTC.
    """

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int
    since: str


Fact = dict[str, str]
"""A condition without its time: see `condition`."""


def condition(kind: str, status: bool | None, reason: str, message: str = "") -> Fact:  # noqa: FBT001
    """What is known of one condition, without the time; None means unknown."""
    word = "Unknown" if status is None else str(bool(status))
    return {"type": kind, "status": word, "reason": reason, "message": message}


def set_condition(
    conditions: Sequence[Any], fact: Fact, *, generation: int, now: datetime
) -> list[Condition]:
    """The list with this fact in it; `since` moves only when `status` changes. The input stays as it was.

    Source: the Kubernetes API conventions on `lastTransitionTime`.
    """
    old = find(conditions, fact["type"])
    since = old["since"] if old and old["status"] == fact["status"] else _stamp(now)
    new = Condition(
        type=fact["type"], status=fact["status"], reason=fact["reason"], message=fact["message"],
        observed_generation=generation, since=since,
    )  # fmt: skip
    if old is None:
        return [*conditions, new]
    return [new if entry["type"] == fact["type"] else entry for entry in conditions]


def merge(
    conditions: Sequence[Any], facts: Iterable[Fact], *, generation: int, now: datetime
) -> list[Condition]:
    """Every fact set, one after the other."""
    merged: list[Condition] = list(conditions)
    for fact in facts:
        merged = set_condition(merged, fact, generation=generation, now=now)
    return merged


def find(conditions: Iterable[Any], type: str) -> Condition | None:  # noqa: A002 - the API's own word
    """The condition of that type, or None."""
    return next((entry for entry in conditions if entry.get("type") == type), None)


def is_true(conditions: Iterable[Any], type: str) -> bool:  # noqa: A002 - the API's own word
    """Whether that condition is there and True."""
    found = find(conditions, type)
    return found is not None and found["status"] == "True"


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
