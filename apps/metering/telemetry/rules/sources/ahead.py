"""Reading one batch ahead: while the database stores one, the next is asked for and parsed. Pure."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

Item = TypeVar("Item")
_PATIENCE = 0.2


def ahead(items: Iterator[Item]) -> Generator[Item]:
    """The same items, or the same exception, made in a thread of its own, at most one ahead.

    The thread ends soon after the caller stops to ask; it must not touch the database.
    """
    ready: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(maxsize=1)
    over = threading.Event()
    worker = threading.Thread(target=_fill, args=(items, ready, over), name="reading ahead", daemon=True)
    worker.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        over.set()
        worker.join()


def _fill(
    items: Iterator[Item],
    ready: "queue.Queue[tuple[Item | None, BaseException | None]]",
    over: threading.Event,
) -> None:
    try:
        for item in items:
            if not _put(ready, (item, None), over):
                return
        _put(ready, (None, None), over)
    except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits
        _put(ready, (None, error), over)


def _put(
    ready: "queue.Queue[tuple[Item | None, BaseException | None]]",
    item: tuple[Item | None, BaseException | None],
    over: threading.Event,
) -> bool:
    while not over.is_set():
        try:
            ready.put(item, timeout=_PATIENCE)
        except queue.Full:
            continue
        return True
    return False
