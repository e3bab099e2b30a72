"""Spans of a trace as the domain names them; `portal.operate.tracing` puts in what records them.

RULE: nothing here knows OpenTelemetry. While nobody records, each call is one comparison. What is said of a
span are ids and words of ours, never an address with its query, a body, an error's message or a person.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

Value = str | int | bool
Attributes = Mapping[str, Value]
Kind = Literal["server", "client", "consumer", "internal"]
"""Which side of a call a span is, as OpenTelemetry has it."""


class Span(Protocol):
    """What is under way."""

    def name(self, text: str) -> None:
        """It is called so, as is known only now."""

    def set(self, attributes: Attributes) -> None:
        """More is known of it."""

    def fail(self, reason: str) -> None:
        """It did not come to what was wanted; `reason` is a word, not a message."""


@dataclass(frozen=True)
class Begin:
    """How a span begins. `parent` and `links` are W3C `traceparent` texts; without a parent it is part of
    what is under way here, else the first of a new trace. Links are spans that it belongs to as well.
    """

    name: str
    attributes: Attributes
    kind: Kind = "internal"
    parent: str = ""
    links: Sequence[str] = ()


class Recorder(Protocol):
    """Who records."""

    def span(self, begin: Begin) -> AbstractContextManager[Span]:
        """What happens within it is part of it. An exception that leaves it fails it by its class's name."""

    def event(self, name: str, attributes: Attributes) -> None:
        """Something that happened in the span that is under way."""

    def current(self) -> str:
        """The `traceparent` of the span that is recorded here; empty without one."""


class _Unrecorded:
    def name(self, text: str) -> None:
        pass

    def set(self, attributes: Attributes) -> None:
        pass

    def fail(self, reason: str) -> None:
        pass


_UNRECORDED: AbstractContextManager[Span] = nullcontext(_Unrecorded())
_recorder: Recorder | None = None


def use(recorder: Recorder | None) -> None:
    """Lets this one record from now on; None: nobody does."""
    global _recorder  # noqa: PLW0603 - one for the process
    _recorder = recorder


def span(begin: Begin) -> AbstractContextManager[Span]:
    """A part of what the process does."""
    return _recorder.span(begin) if _recorder else _UNRECORDED


def step(name: str, attributes: Attributes) -> AbstractContextManager[Span]:
    """A call to somebody else, within a span. By itself it is none: each look of the watcher were a trace."""
    if _recorder is None or not _recorder.current():
        return _UNRECORDED
    return _recorder.span(Begin(name, attributes, "client"))


def event(name: str, attributes: Attributes) -> None:
    """Something that happened in the span that is under way."""
    if _recorder is not None:
        _recorder.event(name, attributes)


def current() -> str:
    """The W3C `traceparent` of the span that is recorded here; empty without one."""
    return _recorder.current() if _recorder else ""


def trace_id() -> str:
    """The trace that is recorded here, as 32 hexadecimal digits; empty without one."""
    return current()[3:35]
