"""What one request has read already, so that it judges one state of the fleet and pays for it once.

RULES: whoever answers a request opens the `scope`; outside of one nothing is kept. What is read at a moment
has that moment in its key. Nothing that is written inside a scope may change what was read in it.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Found = TypeVar("Found")
_READ: ContextVar[dict[Hashable, Any] | None] = ContextVar("read", default=None)


@contextmanager
def scope() -> Iterator[None]:
    """From here to its end `memo` reads each key once. A scope within another is part of that one."""
    token = _READ.set({} if _READ.get() is None else _READ.get())
    try:
        yield
    finally:
        _READ.reset(token)


def memo(key: Hashable, read: Callable[[], Found]) -> Found:
    """What `read` answers; inside a scope what it answered the first time for this key."""
    kept = _READ.get()
    if kept is None:
        return read()
    if key not in kept:
        kept[key] = read()
    found: Found = kept[key]
    return found


def is_open() -> bool:
    """Whether there is a scope, so that what is read is kept."""
    return _READ.get() is not None
