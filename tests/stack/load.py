"""People and programs at work: so many requests a second, and what became of each."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle
from secrets import token_hex
from types import TracebackType
from typing import Self
from uuid import uuid4

import httpx

from tests.patience import patient, until
from tests.stack.installation import Stack
from tests.story.by_rest import job

PAGES = ("/", "/t/vision/", "/t/vision/usage/", "/t/vision/quota/")
TOO_MANY = 429
KEPT = 8
"""Jobs that live at once: of each more the oldest is deleted."""
LONGEST_SECONDS = 30.0
AGAIN_SECONDS = 1.0
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@dataclass(frozen=True)
class Asked:
    """One request: when, what, its status or the error's name, and its seconds."""

    at: float
    what: str
    answer: int | str
    seconds: float

    @property
    def is_failed(self) -> bool:
        """Whether somebody was refused who should not have been."""
        return isinstance(self.answer, str) or self.answer >= 500 or self.answer == TOO_MANY


@dataclass
class Load:
    """`per_second` requests until it is left; each 40th asks for a job, so that jobs come and go.

    RULE: who asks for something and gets no answer asks again with the same key, as docs/api.md says; what
    was acknowledged must be there in the end, once.
    """

    stack: Stack
    per_second: float = 20.0
    asked: list[Asked] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    """Name and id of what was acknowledged and not deleted."""
    deleted: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"load-{token_hex(2)}")
    """What its jobs' names begin with."""
    changed_at: float = 0.0
    """Until when something was not yet as it is now: some change came after it."""
    stays: str = ""
    """The job that is not deleted, however old it is."""
    _ends: threading.Event = field(default_factory=threading.Event)
    _begun: list[Future[object]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.rest = {name: self._client(name) for name in ("researcher", "lead", "platform")}
        self.browser = self._signed_in()
        self._pool = ThreadPoolExecutor(64)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for client in (*self.rest.values(), self.browser):
            client.close()

    def stop(self) -> None:
        """Ask for nothing more; back when what was asked for is answered. Raises what went wrong in here."""
        self._ends.set()
        self._thread.join()
        self._pool.shutdown()
        for each in self._begun:
            each.result()

    @property
    def failed(self) -> list[Asked]:
        """Those that should have been answered."""
        return [each for each in list(self.asked) if each.is_failed]

    def failed_between(self, begins: float, ends: float) -> Counter[str]:
        """How many of what failed with what, of the requests that were begun then."""
        return Counter(f"{each.what} {each.answer}" for each in self.failed if begins <= each.at < ends)

    def settle(self, seconds: float) -> None:
        """What was asked for is there and runs, and what was deleted is gone; fails with what is not."""
        rosa = self.rest["researcher"]

        def wrong() -> list[str]:
            now = time.monotonic()
            at = rosa.get("/workloads", params={"tenant": "vision", "limit": 200}).json()["items"]
            present = {each["slug"]: each["status"]["phase"] for each in at}
            lost = [f"{slug} {present.get(slug)}" for slug in self.jobs if present.get(slug) != "Running"]
            more = Counter(each["slug"] for each in at)
            twice = [slug for slug, times in more.items() if times > 1]
            not_yet = [*lost, *twice, *(slug for slug in present if slug in self.deleted)]
            self.changed_at = now if not_yet else self.changed_at
            return not_yet

        until(lambda: not wrong(), "all that was asked for", seconds, told=wrong)

    def clear(self, seconds: float) -> None:
        """Delete what is left, and wait until it is gone."""
        for slug in list(self.jobs):
            self._delete(slug)
        self.settle(seconds)

    def ask(self, slug: str) -> str:
        """Ask for a job until it is acknowledged; its id."""
        key, body = str(uuid4()), {"tenant": "vision", "slug": slug, "spec": job(3600)}
        rosa = self.rest["researcher"]
        while True:
            answer = self._timed(
                "ask", lambda: rosa.post("/workloads", json=body, headers={"Idempotency-Key": key})
            )
            if answer is not None and answer.status_code < 500:
                assert answer.status_code == 201, answer.text
                self.jobs[slug] = str(answer.json()["id"])
                return self.jobs[slug]
            time.sleep(AGAIN_SECONDS)

    def state(self, pk: str) -> tuple[bool, str]:
        """Whether the cluster holds what a job wants, and its phase; (False, "") where nobody answers."""
        try:
            answer = self.rest["researcher"].get(f"/workloads/{pk}")
        except httpx.HTTPError:
            return False, ""
        if answer.status_code != 200:
            return False, ""
        told = answer.json()["status"]
        return any(each["type"] == "Synced" and each["status"] == "True" for each in told["conditions"]), str(
            told["phase"]
        )

    def _delete(self, slug: str) -> None:
        pk, rosa = self.jobs.pop(slug), self.rest["researcher"]
        self.deleted[slug] = pk
        while True:
            answer = self._timed("delete", lambda: rosa.delete(f"/workloads/{pk}", headers={"If-Match": "*"}))
            if answer is not None and answer.status_code < 500:
                assert answer.status_code in (202, 204, 404), answer.text
                return
            time.sleep(AGAIN_SECONDS)

    def _work(self) -> None:
        acts, next_at = self._acts(), time.monotonic()
        while not self._ends.wait(max(0.0, next_at - time.monotonic())):
            self._begun.append(self._pool.submit(next(acts)))
            next_at += 1 / self.per_second

    def _acts(self) -> Iterator[Callable[[], object]]:
        pages, people = cycle(PAGES), cycle(self.rest.values())
        for number in count():
            if number % 40 == 20:
                yield partial(self._come_and_go, f"{self.name}-{number}")
            elif number % 4 == 0:
                yield partial(self._timed, "page", partial(self.browser.get, next(pages)))
            else:
                read = partial(next(people).get, "/workloads", params={"tenant": "vision"})
                yield partial(self._timed, "read", read)

    def _come_and_go(self, slug: str) -> None:
        self.ask(slug)
        if len(self.jobs) > KEPT and (oldest := next((old for old in self.jobs if old != self.stays), "")):
            self._delete(oldest)

    def _timed(self, what: str, call: Callable[[], httpx.Response]) -> httpx.Response | None:
        began = time.monotonic()
        answer: httpx.Response | None = None
        try:
            answer = call()
            told: int | str = answer.status_code
        except httpx.HTTPError as error:
            told = type(error).__name__
        self.asked.append(Asked(began, what, told, time.monotonic() - began))
        return answer

    def _client(self, username: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.stack.url}/api/v1",
            headers={"Authorization": f"Bearer {self.stack.token(username)}"},
            timeout=patient(LONGEST_SECONDS),
            trust_env=False,
        )

    def _signed_in(self) -> httpx.Client:
        """Rosa's browser."""
        client = httpx.Client(
            base_url=self.stack.url, timeout=patient(LONGEST_SECONDS), trust_env=False, follow_redirects=True
        )
        token = _TOKEN.search(client.get("/").text)
        assert token
        answer = client.post(
            "/sign-in/demo/",
            data={"csrfmiddlewaretoken": token[1], "person": "researcher"},
            headers={"Origin": self.stack.url, "Referer": f"{self.stack.url}/"},
        )
        assert answer.status_code == 200, answer.text[:500]
        return client
