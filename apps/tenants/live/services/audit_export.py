"""The audit record as a file, made while it is read and for as long as its reader may see it."""

from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.db import connection
from django.http.response import HttpResponseBase

from apps.accounts import actors
from apps.accounts.actors import Credential
from apps.audit.models import AuditEvent
from apps.audit.selectors import narrowed, stretches
from apps.audit.specs import Wanted
from apps.tenants.live.services.stream_guard import Guard
from apps.tenants.people.selectors.audit_events import events_for, reach_of
from apps.web.streams import streaming

STRETCH = 1000
"""How many events one statement looks at; a file holds no connection to the database in between."""


@dataclass(frozen=True)
class Form:
    """How a file is written: its name, its media type, what it begins with, and the lines of some events."""

    name: str
    media: str
    head: bytes
    lines: Callable[[list[AuditEvent]], bytes]


def export(credential: Credential, wanted: Wanted, form: Form) -> HttpResponseBase:
    """What the credential may see of what is wanted, newest first; nothing newer than its first line."""
    guard = Guard(credential, reach_of)
    # Asked anew: what changed since the guard was opened is seen by its first look.
    rows = narrowed(events_for(actors.again(credential)), wanted)
    chunks = _chunks(stretches(rows, wanted.words, STRETCH), form)
    return streaming.file(chunks, guard, name=form.name, media=form.media)


async def _chunks(found: Iterator[list[AuditEvent]], form: Form) -> AsyncGenerator[bytes, None]:
    if form.head:
        yield form.head
    while (chunk := await sync_to_async(_next, thread_sensitive=False)(found, form)) is not None:
        if chunk:
            yield chunk


def _next(found: Iterator[list[AuditEvent]], form: Form) -> bytes | None:
    """In a thread of nobody's: its connection is given back at once, however slow the reader is."""
    try:
        rows = next(found, None)
        return None if rows is None else form.lines(rows)
    finally:
        connection.close()
