"""The lease of a leader: any number of clocks and watchers run, one of each works, another takes over.

By the database's clock, like the lease of a row. The leader itself counts on its own clock from before it
asked, so it stops before anybody else can begin: also where it was paused, or the database does not answer.
"""

import logging
import os
import secrets
import socket
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import (
    Case,
    CharField,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    When,
)
from django.db.models.functions import Now

from apps.cluster.models import Leadership
from apps.prepared import PreparedUpdate
from apps.web.stores import outage

SECONDS = 6.0
"""How long a leader that says nothing stays one: what it did is taken over within that and one `pause`."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)

_log = logging.getLogger(__name__)


class Leader:
    """One process's part in a leadership: it asks for it again and again, and holds it or not."""

    def __init__(self, name: str, *, seconds: float = SECONDS) -> None:
        self.name = name
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}#{secrets.token_hex(5)}"
        self.pause = seconds / 3
        """Seconds between two times that it asks."""
        self._seconds = seconds
        self._until = self._asked = float("-inf")
        self._is_unknown = False

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold it at this moment."""
        return time.monotonic() < self._until

    def keep(self) -> bool:
        """Take it where nobody holds it, or hold it for longer; at most once in a `pause`. Whoever asks
        lets go of connections that broke (`close_old_connections`).
        """
        now = time.monotonic()
        if now - self._asked < self.pause:
            return self.is_held
        self._asked = now
        held_before = self.is_held
        try:
            self._until = now + self._seconds if self._take() else float("-inf")
            self._is_unknown = False
        except DatabaseError as error:
            if not (outage.noted(error) or self._is_unknown):  # one line for an outage
                _log.warning("who leads %s is not known: %s", self.name, error)
            self._is_unknown = True
        if self.is_held != held_before:
            _log.info("%s: %s", self.name, "leads" if self.is_held else "leads no longer")
        return self.is_held

    def give_back(self) -> None:
        """Let another begin at once."""
        if self.is_held:
            self._until = float("-inf")
            try:
                Leadership.objects.filter(name=self.name, holder=self.holder).update(until=Now())
            except DatabaseError as error:
                _log.warning("%s ends by itself: %s", self.name, error)

    def _take(self) -> bool:
        asked = self.name, self.holder, timedelta(seconds=self._seconds)
        if _TAKE(*asked):
            return True
        if Leadership.objects.filter(name=self.name).exists():
            return False
        Leadership.objects.bulk_create([Leadership(name=self.name, until=_NEVER)], ignore_conflicts=True)
        return bool(_TAKE(*asked))


def _taken(name: Any, holder: Any, time: Any) -> tuple[QuerySet[Leadership], dict[str, Any]]:
    free = Q(until__lte=Now()) | Q(holder=holder)
    until = ExpressionWrapper(Now() + time, output_field=DateTimeField())
    term = Case(When(holder=holder, then=F("term")), default=F("term") + 1)
    return Leadership.objects.filter(free, name=name), {"holder": holder, "term": term, "until": until}


_TAKE = PreparedUpdate(_taken, CharField(), CharField(), DurationField())
