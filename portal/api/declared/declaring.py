"""What an operation takes, answers and refuses, declared on its method. See docs/declaring-operations.md.

    @pages(TokenBody)
    def get(...)                      # {"items": [TokenBody], "next", "total"}

    @takes(TokenWishSerializer)
    @answers(201, MadeTokenBody, location=True)
    @refuses("already_exists")
    def post(...)

OpenAPI (`portal.api.base.schema`) is made of these; every answer of the test suites is checked against it.
What follows from the view itself is not declared: the query, If-Match, Idempotency-Key, dry runs, other media
types (`renderer_classes`), and the refusals that every such operation shares.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rest_framework import serializers

from apps.web.problems.codes import CODES

JSON = "application/json"
EVENTS = "text/event-stream"
TEXT = "text/plain"

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Answer:
    """One way in which an operation succeeds. `body`: a TypedDict, another type, or None for no body."""

    status: int
    body: Any = None
    media: str = JSON
    is_list: bool = False
    etag: bool = False
    location: bool = False
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """What is declared of one method of a view."""

    answers: tuple[Answer, ...] = ()
    takes: type[serializers.BaseSerializer[Any]] | None = None
    refuses: tuple[str, ...] = ()
    reads: tuple[tuple[str, str], ...] = ()
    rehearsal: Any = None
    name: str = ""


def operation_of(view: Any, method: str) -> Operation | None:
    """The declaration of a view's method (HEAD: that of GET); None where nothing is declared."""
    handler = getattr(view, "get" if method == "HEAD" else method.lower(), None)
    found: Operation | None = getattr(handler, "operation", None)
    return found if found and found.answers else None


def _declare(change: Callable[[Operation], Operation]) -> Callable[[Handler], Handler]:
    def declared(handler: Handler) -> Handler:
        handler.operation = change(getattr(handler, "operation", Operation()))  # type: ignore[attr-defined]
        return handler

    return declared


def answers(
    status: int,
    body: Any = None,
    *,
    media: str = JSON,
    etag: bool = False,
    location: bool = False,
    headers: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Declares one way to succeed; use it once per status and media type, the usual one on top."""
    made = Answer(status, body, media, etag=etag, location=location, headers=headers)
    return _declare(lambda known: replace(known, answers=(made, *known.answers)))


def pages(item: Any) -> Callable[[Handler], Handler]:
    """A page of these: `items`, `next` and, if asked, `total`."""
    page = Answer(200, item, is_list=True)
    return _declare(lambda known: replace(known, answers=(page, *known.answers)))


def takes(serializer: type[serializers.BaseSerializer[Any]]) -> Callable[[Handler], Handler]:
    """Declares the body; an operation without it takes none, or an empty object."""
    return _declare(lambda known: replace(known, takes=serializer))


def refuses(*codes: str) -> Callable[[Handler], Handler]:
    """Declares the codes of `problems.codes` that the operation may answer beyond the common ones."""
    unknown = set(codes) - set(CODES)
    if unknown:
        raise LookupError(f"no such code: {sorted(unknown)}")
    return _declare(lambda known: replace(known, refuses=known.refuses + codes))


def reads(header: str, words: str) -> Callable[[Handler], Handler]:
    """Declares a request header, such as Last-Event-ID."""
    return _declare(lambda known: replace(known, reads=(*known.reads, (header, words))))


def rehearses(body: Any) -> Callable[[Handler], Handler]:
    """What `?dry_run=true` answers, `result` and all, where it is not a plain `bodies.Rehearsal`."""
    return _declare(lambda known: replace(known, rehearsal=body))


def named(name: str) -> Callable[[Handler], Handler]:
    """Sets the operationId, where the one made of the address does not fit."""
    return _declare(lambda known: replace(known, name=name))
