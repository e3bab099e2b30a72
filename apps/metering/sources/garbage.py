"""Large batches without the collector of reference cycles. Pure."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, nothing looks for reference cycles: JSON and rows have none, and walking millions of them again
    and again costs as much as reading them. Threads may overlap; the last one out puts it back.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
