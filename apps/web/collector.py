"""The collector of garbage looks at what requests and tasks make, not at what a process has from start; and
what they used goes back to the machine.
"""

import ctypes
import gc
import time

YOUNG = 10_000
"""New objects before the collector looks at the young ones. At Python's 700 it looks several times at those
of a list of 50 rows, all of which still live.
"""
MIDDLE, OLD = 1, 5
"""A middle round after every second young one, an old round after every sixth middle one. A request leaves
objects that only a round after its end can take. Of a burst nearly all requests are under way while the young
and middle rounds look, so that what they leave waits for an old one: at 50, what 25 bursts of 60 leave.
"""


def leave_out_what_stays() -> None:
    """What is there by now stays: code, settings, templates. Called once a process has read them."""
    gc.collect()
    gc.freeze()
    # Else old rounds wait until a quarter of what stays has come anew.
    gc.collect()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


class GivingBack:
    """Gives the machine back what the C library keeps of memory that nothing uses, at most once in a while:
    after tasks that read much it is a tenth of a worker's.
    """

    SECONDS = 60.0

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._next = 0.0

    @property
    def is_possible(self) -> bool:
        """Only glibc can."""
        return self._trim is not None

    def __call__(self) -> None:
        """It takes about a millisecond where there is something to give."""
        now = time.monotonic()
        if self._trim is not None and now >= self._next:
            self._next = now + self.SECONDS
            self._trim(0)
