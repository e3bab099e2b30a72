"""Large batches without the collector of reference cycles. Pure."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pause:
    """How many batches want the collector off, and whether it ran before the first of them."""

    def __init__(self) -> None:
        self._lock, self._inside, self._was_enabled = Lock(), 0, False

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()


_PAUSE = _Pause()


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, nothing looks for reference cycles: JSON and rows have none, and walking millions of them again
    and again costs as much as reading them. Threads may overlap; the last one out puts it back.
    """
    _PAUSE.enter()
    try:
        yield
    finally:
        _PAUSE.leave()
