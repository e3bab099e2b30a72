"""Who holds a stream open while people work: programs and pages, which connect again as EventSource does."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

from tests.patience import patient, until
from tests.stack.load import Load

PROGRAM, PAGE = "/events?tenant=vision", "/live/?on=tenant:vision"
PAGES = 2
BEAT_SECONDS = 15.0


@dataclass
class Follower:
    """One stream. A program keeps the phase of each workload, and lists them where it may have missed one; a
    page asks for its parts anew when it is told, or has connected again.
    """

    client: httpx.Client
    path: str
    ends: threading.Event
    phases: dict[str, str] = field(default_factory=dict)
    connected: int = 0
    resets: int = 0
    refused: list[int] = field(default_factory=list)
    """Answers that are no stream: a browser would not try again."""
    longest_silence: float = 0.0
    anew_at: float = 0.0
    """When a page asked for its parts."""
    _heard_at: float = field(default_factory=time.monotonic)
    _last_id: str = ""
    _again_seconds: float = 3.0

    def follow(self) -> None:
        """Until it is over."""
        while not self.ends.is_set():
            with suppress(httpx.TransportError):
                self._listen()
            self.ends.wait(self._again_seconds)

    def _listen(self) -> None:
        known = {"Last-Event-ID": self._last_id} if self._last_id else {}
        with self.client.stream("GET", self.path, headers=known) as answer:
            if answer.status_code != httpx.codes.OK:
                self.refused.append(answer.status_code)
                return
            self.connected, self.anew_at = self.connected + 1, time.monotonic()
            for event in events_of(answer):
                self._hear(event)
                if self.ends.is_set():
                    return

    def _hear(self, event: dict[str, str]) -> None:
        now = time.monotonic()
        self.longest_silence = max(self.longest_silence, now - self._heard_at)
        self._heard_at, self._last_id = now, event.get("id", self._last_id)
        self._again_seconds = float(event.get("retry", self._again_seconds * 1000)) / 1000
        match event.get("event"):
            case "part":
                self.anew_at = now
            case "reset":
                self.resets, self.phases = self.resets + 1, self._listed()
            case "workload.updated":
                fact = json.loads(event["data"])
                self.phases[fact["id"]] = fact["phase"]

    def _listed(self) -> dict[str, str]:
        items: list[Any] = self.client.get("/workloads?tenant=vision&limit=200").json()["items"]
        return {each["id"]: each["status"]["phase"] for each in items}


def events_of(answer: httpx.Response) -> Iterator[dict[str, str]]:
    """Server-sent events as they come: their fields."""
    event: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, text = line.partition(": ")
            event[name] = text
        elif event:
            yield event
            event = {}


class Followers:
    """A program of each person of the load, and two pages."""

    def __init__(self, load: Load) -> None:
        self._load, self._ends = load, threading.Event()
        self.programs = [Follower(client, PROGRAM, self._ends) for client in load.rest.values()]
        self.pages = [Follower(load.browser, PAGE, self._ends) for _ in range(PAGES)]

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=each.follow, daemon=True) for each in self.all]
        for thread in self._threads:
            thread.start()
        until(lambda: all(each.connected for each in self.all), "all streams", 30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(patient(BEAT_SECONDS))

    @property
    def all(self) -> list[Follower]:
        """Each stream."""
        return [*self.programs, *self.pages]

    def settle(self, seconds: float) -> None:
        """Each has seen what is; fails with what it believes instead."""
        until(lambda: not self._wrong(), "the streams to have told all", seconds, told=self._wrong)

    def _wrong(self) -> list[str]:
        """Who began anew has listed what there is: what is not in it is gone."""
        load = self._load
        due = {
            **dict.fromkeys(load.jobs.values(), "Running"),
            **dict.fromkeys(load.deleted.values(), "Deleting"),
        }
        believed = [
            f"{pk} {each.phases.get(pk)}"
            for each in self.programs
            for pk, phase in due.items()
            if each.phases.get(pk, "Deleting" if each.resets else None) != phase
        ]
        return [*believed, *("a page" for each in self.pages if each.anew_at < load.changed_at)]
