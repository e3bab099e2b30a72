"""Processes that read and compute beside the one that writes: a machine has several cores."""

import gc
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import ParamSpec, Self, TypeVar

from django.db import connection, connections

P = ParamSpec("P")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
_CHUNK, _AHEAD = 16, 4


def _collect_rarely() -> None:
    """Rows have no reference cycles: to look for some among millions of them costs a tenth of the work."""
    gc.freeze()
    gc.set_threshold(100_000)


class Helpers:
    """So many processes; with 0 the caller's own does everything, when it is asked for.

    RULE: they read what is committed, by connections of their own: none is handed on by a fork.
    """

    def __init__(self, count: int) -> None:
        self._pool: Executor | None = None
        if count:
            connections.close_all()
            if connection.vendor == "postgresql":
                connection.close_pool()  # type: ignore[attr-defined]
            fork = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_collect_rarely)
            # All are started by the first piece of work.
            self._pool.submit(int).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(
        self, function: Callable[[Item], Answer], items: Iterable[Item], *, chunk: int = _CHUNK
    ) -> Iterator[Answer]:
        """The answers in the order of the items, of which so many go to a process at once."""
        if self._pool is None:
            return map(function, items)
        return self._pool.map(function, items, chunksize=chunk)

    def ahead(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """The same; a few are computed while the caller uses the answers, so that none pile up."""
        waiting = deque[Callable[[], Answer]]()
        for item in items:
            waiting.append(self.start(function, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()

    def start(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Callable[[], Answer]:
        """Begins a piece of work; what it answers waits for it."""
        if self._pool is None:
            return lambda: function(*args, **kwargs)
        return self._pool.submit(function, *args, **kwargs).result
