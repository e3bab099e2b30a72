"""The one writer of what watches tell: a queue in, transactions out, hints after the commit.

One thread runs it, because many threads that write only get in each other's way on SQLite. A batch that the
database does not take is tried again until it does: the watches wait meanwhile.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connections, transaction
from django.db.models import DateTimeField, UUIDField
from django.utils import timezone
from prometheus_client import Counter

from apps.cluster.leading.services.leadership import Leader
from apps.cluster.mirror.rules.mirror_columns import Sighting, version_number
from apps.cluster.mirror.services import mirror_table, open_pages
from apps.cluster.models import Cluster, MirrorObject, WatchPosition
from apps.cluster.reconciling.services import sweep
from apps.cluster.reconciling.services.sweep import Owner
from apps.cluster.specs import Body, EventType, WatchEvent
from apps.cluster.watching.services import capabilities, positions
from apps.cluster.watching.services.capabilities import Facts
from apps.prepared import PreparedUpdate
from apps.web.stores import outage

SILENCE = timedelta(seconds=15)
BATCH = 100
ROOM = 2 * BATCH
"""Messages that wait for the writer. What it is behind by more waits in the sockets, as bytes: as objects it
takes ten times as much, which a process does not give back.
"""
_PATIENCE = 0.5
_BREATH = 0.1
_FIRST_PAUSE = 0.2
_CHUNK = 500

EVENTS = Counter("allotment_watch_events_total", "Watch events written to the mirror.", ["kind"])
RETRIES = Counter("allotment_watch_write_retries_total", "Batches that the database did not take at once.")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saw:
    """A watch saw this object."""

    kind: str
    event: WatchEvent


@dataclass(frozen=True)
class Listed:
    """A list of a kind as of a version, or its next page; `earlier` are the uids of the pages before.

    What is missing in a list shows with its last page only. `written` is set once this one is in the mirror.
    """

    kind: str
    items: Sequence[Body]
    version: str
    earlier: Collection[str] = ()
    is_last: bool = True
    written: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Beat:
    """The cluster answered, or why it did not (`error`)."""

    error: str = ""


@dataclass(frozen=True)
class Met:
    """The cluster answered for the first time, or again: this is who it is (see `capabilities.identity`)."""

    identity: str


@dataclass(frozen=True)
class Detected:
    """What the cluster can do."""

    facts: Facts


Message = Saw | Listed | Beat | Met | Detected


@dataclass
class Pace:
    """How often a row is hinted: at once, then at most once in so many seconds while its objects go on
    changing. A start is a burst of a dozen changes, and one look at it sees them all.
    """

    seconds: float = 0.25
    _free_at: dict[Owner, float] = field(default_factory=dict)
    _held: set[Owner] = field(default_factory=set)

    def hold(self, owners: Collection[Owner], now: float) -> set[Owner]:
        """Those that were hinted a moment ago; the others may be hinted now."""
        held = {owner for owner in owners if self._free_at.get(owner, now) > now}
        self._free_at |= {owner: now + self.seconds for owner in owners if owner not in held}
        self._held |= held
        return held

    def release(self, now: float) -> set[Owner]:
        """The held-back rows that are due now."""
        ripe = {owner for owner in self._held if self._free_at[owner] <= now}
        self._held -= ripe
        self._free_at = {owner: at for owner, at in self._free_at.items() if at > now}
        self._free_at |= dict.fromkeys(ripe, now + self.seconds)
        return ripe

    def left(self, now: float) -> float:
        """Seconds until `release` has something, at most half a second."""
        return max(0.0, min((self._free_at[owner] - now for owner in self._held), default=_PATIENCE))


class Ingest:
    """Writes one cluster's messages. `put` may be called from any thread, everything else from the
    writer's.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_met: Callable[[bool], None],
        pace: Pace | None = None,
        leader: Leader | None = None,
    ) -> None:
        """`on_met(is_known)` is called in the writer's thread once it is clear which cluster answers."""
        self.cluster = cluster
        self._on_met = on_met
        self._leader = leader
        self._queue: queue.Queue[Message] = queue.Queue(maxsize=ROOM)
        self._has_ended = threading.Event()
        self._answered = time.monotonic()
        self._error = ""
        self._topics: dict[str, set[str]] = {}
        self._published = self._wrote = self._noted = 0.0
        self._moved: dict[str, str] = {}
        self._pace = pace or Pace()

    def put(self, message: Message) -> None:
        """Hand a message over; waits while the writer is behind. Once it has ended the message is dropped."""
        while not self._has_ended.is_set():
            with suppress(queue.Full):
                self._queue.put(message, timeout=_PATIENCE)
                return

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set and what has arrived by then is written.

        RULE: who no longer leads writes nothing: what has arrived is dropped, the next leader reads it again
        from the stored position.
        """
        while not stop.is_set() or (self._may_write() and not self._queue.empty()):
            # Without a name for the batch: what is written is let go before the next has come.
            self._insist(partial(self._write_as_leader, self.take(), stop), stop)
        if self._may_write():
            self._insist(partial(self._note_positions, 0.0), stop)
        self._has_ended.set()
        connections.close_all()

    def _may_write(self) -> bool:
        return self._leader is None or self._leader.is_held

    def _write_as_leader(self, batch: Sequence[Message], stop: threading.Event) -> None:
        """Once the lease is known to hold; it is asked for by another thread, which ends this one too."""
        while not self._may_write():
            if stop.wait(_PATIENCE):
                return
        self.write(batch)

    def take(self) -> list[Message]:
        """What has arrived, at most one batch; waits half a second for the first, less if a hint is due.

        After a pause the first comes through at once. Of a burst, what comes within a tenth of a second is
        written together: each transaction costs as much as a dozen events in it.
        """
        batch: list[Message] = []
        try:
            batch.append(self._queue.get(timeout=self._pace.left(time.monotonic())))
            early = self._wrote + _BREATH - time.monotonic()
            if early > 0 and self._queue.qsize() < BATCH:
                time.sleep(early)
            while len(batch) < BATCH:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            # Nothing more has arrived; what there is goes out now.
            return batch
        return batch

    def write(self, batch: Sequence[Message]) -> None:
        """One transaction for the events of a batch; lists in transactions of their own, in the same
        order.
        """
        run: list[Saw] = []
        for message in batch:
            if isinstance(message, Saw):
                run.append(message)
                continue
            self._write_events(run)
            run = []
            self._write_other(message)
        self._write_events(run)
        self._note_positions()
        self._judge_silence()
        self._publish()
        sweep.hint_noted(self._pace.release(time.monotonic()))
        if batch:
            self._wrote = time.monotonic()

    def _insist(self, work: Callable[[], None], stop: threading.Event) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                close_old_connections()
                return work()
            except DatabaseError as error:
                RETRIES.inc()
                if not outage.noted(error) and pause == _FIRST_PAUSE:  # one line for an outage
                    _log.warning(
                        "cluster %s: the database did not take a batch: %s", self.cluster.slug, error
                    )
                connections.close_all()
                if stop.wait(pause):
                    return None
                pause = min(pause * 2, 10.0)

    def _write_events(self, run: Sequence[Saw]) -> None:
        if not run:
            return
        now = timezone.now()
        real = [saw for saw in run if saw.event.type is not EventType.BOOKMARK]
        seen = [Sighting(s.kind, s.event.object, s.event.type is EventType.DELETED) for s in real]
        with transaction.atomic():
            self._tell(mirror_table.record_seen(self.cluster, seen, now=now))
            self._moved |= {s.kind: s.event.resource_version for s in run}
            self._note_positions()
        for saw in real:
            EVENTS.labels(saw.kind).inc()

    def _note_positions(self, every: float = 1.0) -> None:
        """How far each kind was read, at most once in so many seconds: what is read twice changes nothing,
        and in a burst these would be as many writes as what is read.
        """
        if not self._moved or time.monotonic() - self._noted < every:
            return
        positions.move(self.cluster, self._moved)
        self._moved, self._noted = {}, time.monotonic()

    def _write_other(self, message: Listed | Beat | Met | Detected) -> None:
        if isinstance(message, Listed):
            self._write_list(message)
        elif isinstance(message, Detected):
            self._write_facts(message.facts)
        elif isinstance(message, Met):
            is_known = recognise(self.cluster, message.identity)
            if not is_known:
                self._moved.clear()
            self._on_met(is_known)
        else:
            self._hear(message)

    def _write_list(self, listed: Listed) -> None:
        """In chunks, so that a large list does not keep every other writer waiting; what is gone and the
        position come with the last page.
        """
        now = timezone.now()
        items = list(listed.items)
        for start in range(0, len(items), _CHUNK):
            chunk = [Sighting(listed.kind, item) for item in items[start : start + _CHUNK]]
            with transaction.atomic():
                self._tell(mirror_table.record_seen(self.cluster, chunk, now=now))
        if listed.is_last:
            self._end_list(listed, now)
        listed.written.set()

    def _end_list(self, listed: Listed, now: datetime) -> None:
        version = version_number(listed.version)
        self._moved.pop(listed.kind, None)
        with transaction.atomic():
            gone = mirror_table.bury_absent(
                self.cluster, listed.kind, listed.items, earlier=listed.earlier, resource_version=version,
                now=now,
            )  # fmt: skip
            self._tell(gone)
            positions.listed(self.cluster, listed.kind, listed.version, now=now)

    def _write_facts(self, facts: Facts) -> None:
        config = settings.CONFIG
        has_gateway = bool(config.gateway) and self.cluster.slug == config.door_cluster
        judged = capabilities.judge(facts, has_gateway=has_gateway)
        Cluster.objects.filter(pk=self.cluster.pk).update(capabilities=judged, version=facts.kubernetes)

    def _tell(self, changes: mirror_table.Changes) -> None:
        due = sweep.mark(changes.owners)
        held = self._pace.hold(due, time.monotonic())
        sweep.hint_noted(owner for owner in due if owner not in held)
        for topic, parts in open_pages.topics_of(changes).items():
            self._topics.setdefault(topic, set()).update(parts)

    def _publish(self) -> None:
        """Hint open pages, at most once a second whatever the fleet does."""
        if not self._topics or time.monotonic() - self._published < 1.0:
            return
        self._published = time.monotonic()
        taken, self._topics = self._topics, {}
        open_pages.tell(self.cluster.pk, taken, now=timezone.now())

    def _hear(self, beat: Beat) -> None:
        was_away, self._error = bool(self._error), beat.error
        if beat.error:
            return
        self._answered = time.monotonic()
        now = timezone.now()
        if not was_away and _STILL_READY(now, self.cluster.pk):
            return
        row = Cluster.objects.filter(pk=self.cluster.pk)
        answering = {"phase": Cluster.Phase.READY, "message": "", "silent_since": None, "last_seen_at": now}
        with transaction.atomic():
            was = row.values_list("phase", flat=True).first()
            row.update(**answering)
            # Rows fail from the first moment on, also where it was not away long enough to be called silent.
            if was_away or was == Cluster.Phase.SILENT:
                hinted = sweep.recover(self.cluster, now)
                self._topics.setdefault("console", set()).update(("needs", "use", "rows"))
                _log.info("cluster %s answers again; %s rows are tried again", self.cluster.slug, hinted)

    def _judge_silence(self) -> None:
        silent_for = time.monotonic() - self._answered
        if silent_for < SILENCE.total_seconds():
            return
        since = timezone.now() - timedelta(seconds=silent_for)
        words = f"No answer since {since:%H:%M:%S} UTC. {self._error}".strip()
        changed = (
            Cluster.objects.filter(pk=self.cluster.pk)
            .exclude(phase=Cluster.Phase.SILENT)
            .update(phase=Cluster.Phase.SILENT, message=words, silent_since=since)
        )
        if changed:
            self._topics.setdefault("console", set()).update(("needs", "use", "rows"))
            _log.error("cluster %s is silent: %s", self.cluster.slug, words)


_STILL_READY = PreparedUpdate(
    lambda now, cluster: (
        Cluster.objects.filter(pk=cluster, phase=Cluster.Phase.READY),
        {"message": "", "silent_since": None, "last_seen_at": now},
    ),
    DateTimeField(),
    UUIDField(),
)


def recognise(cluster: Cluster, identity: str) -> bool:
    """Whether it is the cluster we know; another one behind the same address makes the mirror start
    afresh.
    """
    row = Cluster.objects.filter(pk=cluster.pk)
    known = row.values_list("identity", flat=True).first()
    if not identity or known == identity:
        return True
    with transaction.atomic():
        if known:
            MirrorObject.objects.filter(cluster=cluster).delete()
            WatchPosition.objects.filter(cluster=cluster).delete()
            sweep.begin_anew(cluster)
            _log.warning("cluster %s is another one than before: its mirror starts afresh", cluster.slug)
        row.update(identity=identity)
    return not known
