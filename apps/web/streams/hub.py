"""One reader per process takes what `streams.events` publishes and hands it to open streams by topic.

The last hour is kept in one stream of Redis, so all of it has one order, and every entry an id by which a
client says how far it has heard.
"""

import asyncio
import contextvars
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from apps.web import counters
from apps.web.stores import outage

KEPT = "allotment:events"
KEPT_SECONDS, MOST_KEPT = 3600, 20_000
GAP = "gap"
"""The field of an entry that says: before this, something was lost. It is told as `LOST`."""
LOST = {"type": "reset"}
PATIENCE_SECONDS = 0.4
BLOCK_SECONDS = 5
PAGE = 500
MOST_WAITING = 1000
"""Entries that a client may be behind before its stream ends; it comes back and says how far it heard."""
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")

Fields = Mapping[str, str]


@dataclass(frozen=True)
class Heard:
    """One entry, as somebody who listens to some of its topics gets it."""

    id: str
    part: str
    data: Mapping[str, Any]


class Ear:
    """Somebody who listens to topics: `waiting` holds what came and was not taken yet."""

    def __init__(self, hub: "Hub", topics: Iterable[str], last: str) -> None:
        self._hub, self._topics, self._last = hub, frozenset(topics), last
        self.waiting: deque[Heard] = deque()
        self.ended = False
        self._news = asyncio.Event()

    @property
    def position(self) -> str:
        """The id up to which everything was taken; empty before the first entry ever."""
        return self._last if self.waiting else self._hub.last

    async def take(self, seconds: float) -> Heard | None:
        """The next entry, or None where none comes in time or ever again (`ended`)."""
        if not self.waiting and not self.ended:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), max(seconds, 0.001))
            except TimeoutError:
                return None
        if not self.waiting:
            return None
        heard = self.waiting.popleft()
        self._last = heard.id
        return heard

    async def missed(self, since: str) -> list[Heard] | None:
        """What came after the entry `since`; None where that cannot be said in full: list again."""
        return await self._hub.between(since, self._hub.last, self._topics)

    def hear(self, entry: str, fields: Fields) -> None:
        """One more entry for everybody; where too many wait it ends."""
        heard = Heard(entry, "", LOST) if GAP in fields else _heard(entry, fields, self._topics)
        if len(self.waiting) >= MOST_WAITING:
            self.end()
        elif heard is not None and not self.ended:
            self.waiting.append(heard)
            self._news.set()

    def end(self) -> None:
        """Nothing comes any more."""
        self.ended = True
        self._news.set()


class Hub:
    """The reader of one event loop; it reads while somebody listens."""

    def __init__(self) -> None:
        self.last = ""
        self._ears: set[Ear] = set()
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def listen(self, topics: Iterable[str]) -> AsyncIterator[Ear]:
        """All that comes from now on; raises RedisError where Redis does not answer."""
        async with self._starting:
            if self._task is None:
                await self._start()
            ear = Ear(self, topics, self.last)
            self._ears.add(ear)
        try:
            yield ear
        finally:
            self._ears.discard(ear)

    async def between(self, since: str, until: str, topics: frozenset[str]) -> list[Heard] | None:
        """What came after `since` up to `until`; None unless `since` itself is still kept, and so all after
        it.
        """
        if not _ID.fullmatch(since) or not await self._client.xrange(KEPT, since, since, count=1):
            return None
        found: list[Heard] = []
        while entries := await self._client.xrange(KEPT, f"({since}", until or "+", count=PAGE):
            if any(GAP in fields for _, fields in entries):
                return None
            found += (heard for entry, fields in entries if (heard := _heard(entry, fields, topics)))
            since = entries[-1][0]
        return found

    async def _start(self) -> None:
        self._client: Any = redis.asyncio.Redis.from_url(
            settings.CONFIG.redis_url,
            socket_connect_timeout=PATIENCE_SECONDS,
            socket_timeout=BLOCK_SECONDS + 2,
            decode_responses=True,
        )
        newest: Any = await self._client.xrevrange(KEPT, count=1)
        self.last = newest[0][0] if newest else ""
        self._task = asyncio.get_running_loop().create_task(self._read(), context=contextvars.Context())

    async def _read(self) -> None:
        try:
            while True:
                after = {KEPT: self.last or "0-0"}
                for _, entries in await self._client.xread(after, count=PAGE, block=BLOCK_SECONDS * 1000):
                    for entry, fields in entries:
                        self.last = entry
                        for ear in list(self._ears):
                            ear.hear(self.last, fields)
                if not self._ears:
                    return
        except RedisError as error:
            outage.redis.note(error)
            counters.FAILED_OPEN.labels("live stream").inc()
        finally:
            # Before anything is waited for: whoever comes now starts anew.
            self._task = None
            for ear in self._ears:
                ear.end()
            self._ears = set()
            await self._client.aclose()


def _heard(entry: str, fields: Fields, topics: frozenset[str]) -> Heard | None:
    if GAP in fields or topics.isdisjoint(fields["topics"].split(" ")):
        return None
    parts: dict[str, str | None] = json.loads(fields["parts"])
    mine = " ".join(part or "" for topic, part in parts.items() if topic in topics)
    return Heard(entry, mine, json.loads(fields["data"]))


_hubs: "WeakKeyDictionary[Any, Hub]" = WeakKeyDictionary()


def hub() -> Hub:
    """The one of this event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
