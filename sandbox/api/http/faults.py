"""Faults on request: what a broken or busy API server does to its clients.

Only the admin endpoint sets them; nothing is random but by a seed.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

from sandbox.api.http.requests import Request
from sandbox.api.meta import errors

KINDS = ("latency", "status", "cut", "watch-pause", "watch-close", "compact", "gone")
_WATCHED_BY_PATH = ("/sandbox/", "/fleet/")
_MESSAGES = {
    409: "the object has been modified; please apply your changes to the latest version and try again",
    410: "The resourceVersion for the provided list is too old.",
    429: "the server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: the sandbox was asked to fail",
    503: "apiserver not ready",
}


class Cut(Exception):
    """The connection is to be dropped without an answer."""


@dataclass(frozen=True)
class Fault:
    """One fault: which requests it meets, how likely, until when (monotonic)."""

    kind: str
    until: float
    probability: float = 1.0
    code: int = 500
    retry_after: int | None = None
    latency: float = 0.0
    verbs: frozenset[str] = frozenset()
    path: str = ""

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Fault:
        """Read the admin endpoint's body; 400 for what makes no sense."""
        kind = str(body.get("kind", ""))
        if kind not in KINDS:
            raise errors.bad_request(f'unknown fault "{kind}": one of {", ".join(KINDS)}')
        retry = body.get("retryAfter")
        return cls(
            kind,
            time.monotonic() + float(body.get("seconds", 30)),
            float(body.get("probability", 1)),
            int(body.get("code", 500)),
            None if retry is None else int(retry),
            float(body.get("latency", 0)),
            frozenset(str(verb).upper() for verb in body.get("verbs") or ()),
            str(body.get("path", "")),
        )

    def meets(self, request: Request) -> bool:
        """Whether a request is in reach of this fault."""
        if self.verbs and request.method not in self.verbs:
            return False
        return not self.path or re.search(self.path, request.path) is not None

    def error(self) -> errors.ApiError:
        """The refusal of a `status` fault."""
        problem = errors.ApiError(self.code, _MESSAGES.get(self.code, "the sandbox was asked to fail"))
        if self.retry_after is not None:
            problem.details = {"retryAfterSeconds": self.retry_after}
        return problem


@dataclass
class Faults:
    """The faults that hold now."""

    seed: int = 7
    active: list[Fault] = field(default_factory=list)
    met: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/faults")

    def add(self, fault: Fault) -> None:
        """Let a fault begin."""
        self.active.append(fault)

    def clear(self) -> None:
        """End them all."""
        self.active.clear()

    def drawn(self, request: Request, kind: str) -> Fault | None:
        """The fault of a kind that strikes this request, if any. The sandbox's own paths are never struck."""
        if not self.active or request.path.startswith(_WATCHED_BY_PATH):
            return None
        now = time.monotonic()
        self.active = [fault for fault in self.active if fault.until > now]
        for fault in self.active:
            if fault.kind == kind and fault.meets(request) and self._random.random() < fault.probability:
                self.met += 1
                return fault
        return None
