"""Whether Redis failed to answer a moment ago; then nothing waits for it again for a while. One per process.

A Redis that hangs costs half a second each time it is asked; a request asks several times.
"""

import time

from apps.web.stores import outage

PAUSE_SECONDS = 2.0

_until = 0.0


def holds() -> bool:
    """Whether it is too early to ask Redis again."""
    return time.monotonic() < _until


def note(error: Exception) -> None:
    """Redis did not answer just now, which the log has once."""
    global _until  # noqa: PLW0603 - one fact of the process
    _until = time.monotonic() + PAUSE_SECONDS
    outage.redis.note(error)


def forget() -> None:
    """Ask again at once."""
    global _until  # noqa: PLW0603 - as in `note`
    _until = 0.0
