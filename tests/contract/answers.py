"""What a server answered, and how an observation is made comparable.

Pure. Times, identifiers and the names of a run go; what is left must be equal on two servers,
so nothing here hides a field that a check chose to return.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

_PATTERNS = (
    (re.compile(r"https?://(127\.0\.0\.1|localhost):\d+"), "SERVER"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    # Kueue names a workload after its owner and five letters of a hash over the owner's identifier.
    (re.compile(r"\b((?:job|pod|statefulset|deployment)-[a-z0-9.-]+?)-[0-9a-f]{5}\b"), r"\1-HASH"),
)


@dataclass(frozen=True)
class Answer:
    """Status code, decoded body (text where it is no JSON) and the warnings beside it."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The object's resourceVersion."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        """The object's identity."""
        return str(self.body["metadata"]["uid"])

    @property
    def names(self) -> list[str]:
        """Names of a list's items, in the server's order."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def refusal(self) -> Body:
        """What a client is told when it is refused: everything of the Status but its constant parts."""
        body = self.body if isinstance(self.body, dict) else {"message": self.body}
        causes = (body.get("details") or {}).get("causes") or []
        told = {"status": self.status, "reason": body.get("reason"), "message": body.get("message")}
        return {**told, "causes": sorted(causes, key=json.dumps)} if causes else told

    def get(self, path: str) -> Any:
        """A field by its dotted path; None where there is none."""
        return dig(self.body, path)

    def pick(self, *paths: str) -> Body:
        """The status code and the chosen fields."""
        return {"status": self.status, **pick(self.body, *paths)}


def dig(body: Any, path: str) -> Any:
    """A field by its dotted path, numbers being list positions; None where there is none."""
    for key in path.split("."):
        if isinstance(body, list):
            body = body[int(key)] if int(key) < len(body) else None
        elif isinstance(body, dict):
            body = body.get(key)
        else:
            return None
    return body


def pick(body: Any, *paths: str) -> Body:
    """Chosen fields under their dotted paths."""
    return {path: dig(body, path) for path in paths}


def conditions(body: Body, *fields: str) -> dict[str, Any]:
    """Conditions by type: their status, or status and the chosen fields."""
    found = (body.get("status") or {}).get("conditions") or []
    if not fields:
        return {entry["type"]: entry["status"] for entry in found}
    return {entry["type"]: {key: entry.get(key) for key in ("status", *fields)} for entry in found}


def normalised(value: Any, run: str) -> Any:
    """The observation without what two runs on one server would differ in."""
    if isinstance(value, str):
        return normalised_text(value, run)
    if isinstance(value, dict):
        cleaned = {normalised_text(str(key), run): normalised(entry, run) for key, entry in value.items()}
        return dict(sorted(cleaned.items()))
    if isinstance(value, list | tuple):
        return [normalised(entry, run) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(normalised(entry, run) for entry in value)
    return value


def normalised_text(text: str, run: str) -> str:
    """Times, identifiers, addresses and the run's own letters replaced by words."""
    text = text.replace(run, "RUN")
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text
