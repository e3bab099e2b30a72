"""The hash chain's arithmetic: what a link's hash covers, and where a chain stops being whole.

Pure: it knows neither the database nor Django. It cannot see a tail that was cut together with the head;
for that the head has to be kept somewhere else too.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.words import Word

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class BreachKind(Word):
    """How a chain differs from what was written."""

    EDITED = "edited", "its content is not what was hashed"
    MISSING = "missing", "links before it were deleted"
    RELINKED = "relinked", "it does not follow the link before it: one was inserted, moved or rewritten"
    TRUNCATED = "truncated", "links at the end were deleted"
    EXTRA = "extra", "it lies after the chain's head"


@dataclass(frozen=True)
class Link:
    """Everything of an event that its hash covers."""

    chain: str
    sequence: int
    at: datetime
    actor: str
    token: str
    action: str
    target_kind: str
    target_id: str
    target_name: str
    request_id: str
    reason: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Sealed:
    """A link as stored, with the two hashes beside it."""

    link: Link
    previous_hash: str
    hash: str


@dataclass(frozen=True)
class Place:
    """The last link of a chain that was found whole, 0 before the first: where a check goes on."""

    chain: str
    sequence: int = 0
    hash: str = ""

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}:{self.chain}"


_PLACE = re.compile(r"([0-9]{1,18}):([0-9a-f]{0,64}):(.{1,64})")


def place_in(text: str) -> Place | None:
    """The place that was written as a text; None for every other text."""
    found = _PLACE.fullmatch(text)
    return Place(found[3], int(found[1]), found[2]) if found else None


@dataclass(frozen=True)
class Breach:
    """The first place where a chain is broken; nothing after it can be trusted."""

    chain: str
    sequence: int
    kind: BreachKind

    def __str__(self) -> str:
        return f"{self.chain}#{self.sequence} {self.kind}: {self.kind.label}"


def plain(value: Any) -> Any:
    """The JSON that every database gives back unchanged: floats, times, ids and amounts become their text.

    PostgreSQL stores 100000.0 as 100000, so a hash over a float would not survive being read again.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, set | frozenset) else items
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, str | float | Decimal | UUID | date):
        return str(value)
    raise TypeError(f"an audit event cannot hold a {type(value).__name__}")


def canonical(link: Link) -> str:
    """One text per content: keys sorted, no spaces, times in UTC with microseconds."""
    body = link.__dict__ | {"at": link.at.astimezone(UTC).isoformat(timespec="microseconds")}
    return _ENCODER.encode(body)


def seal(link: Link, previous_hash: str) -> str:
    """SHA-256 of the previous hash followed by the canonical link, in hex."""
    return hashlib.sha256((previous_hash + canonical(link)).encode()).hexdigest()


def walked(place: Place, links: Iterable[Sealed]) -> Place | Breach:
    """The place after these links, or the first of them that is broken; in constant memory."""
    for sealed in links:
        kind = _wrong(sealed, place)
        if kind is not None:
            return Breach(place.chain, sealed.link.sequence, kind)
        place = Place(place.chain, sealed.link.sequence, sealed.hash)
    return place


def ended(place: Place, head: Place) -> Breach | None:
    """Whether a chain that has no link after this place ends where its head says."""
    if place.sequence > head.sequence:
        return Breach(place.chain, head.sequence + 1, BreachKind.EXTRA)
    if place.sequence < head.sequence:
        return Breach(place.chain, place.sequence + 1, BreachKind.TRUNCATED)
    return None if place.hash == head.hash else Breach(place.chain, place.sequence, BreachKind.RELINKED)


def _wrong(sealed: Sealed, place: Place) -> BreachKind | None:
    if sealed.link.sequence != place.sequence + 1:
        return BreachKind.MISSING
    if seal(sealed.link, sealed.previous_hash) != sealed.hash:
        return BreachKind.EDITED
    return None if sealed.previous_hash == place.hash else BreachKind.RELINKED
