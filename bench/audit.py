"""Reads the API server's audit log: who called what, and when the server was done with it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

PRODUCT = "system:serviceaccount:allotment-system:allotment-controller"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list"})


@dataclass(frozen=True)
class Call:
    """One call on an object that the server has answered; times are seconds since 1970."""

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    received: float
    answered: float

    @property
    def is_write(self) -> bool:
        """Whether it changes the cluster."""
        return self.verb in WRITES

    @property
    def is_read(self) -> bool:
        """Whether it asks the API server for objects; a watch that stays open is neither."""
        return self.verb in READS


class AuditLog:
    """The log from where it stands when it is opened; each look takes what has come since."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._file.seek(0, 2)
        self._rest = b""

    def new(self) -> list[Call]:
        """The calls on objects since the last look."""
        return list(self._calls())

    def until(self, is_enough: Callable[[list[Call]], bool], seconds: float, what: str) -> list[Call]:
        """Gather calls until they are enough. It looks seldom: looking costs the machine that is measured."""
        found: list[Call] = []
        deadline = time.monotonic() + seconds
        while True:
            found += self.new()
            if is_enough(found):
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            time.sleep(0.1)

    def _calls(self) -> Iterator[Call]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if b'"objectRef"' in line:
                yield _call(orjson.loads(line))


def _call(event: dict[str, Any]) -> Call:
    about = event["objectRef"]
    return Call(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=about["resource"] + (f"/{about['subresource']}" if "subresource" in about else ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event["responseStatus"]["code"],
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
