"""Examples that no answer of the scene gives, each with its reason."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ByHand:
    """Why nobody of the scene gets it, and what it would be."""

    reason: str
    shown: dict[str, Any]


BY_HAND: dict[str, ByHand] = {}

ENDLESS: dict[str, str] = {"text/event-stream": "it has no end"}
"""Media types without an example, with the reason."""
