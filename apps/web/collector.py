"""The collector of garbage looks at what requests and tasks make, not at what a process has from start."""

import gc

YOUNG = 10_000
"""New objects before the collector looks at the young ones. At Python's 700 it looks several times at those
of a list of 50 rows, all of which still live.
"""
MIDDLE, OLD = 1, 50
"""A middle round after every second young one, an old round after every 50th middle one. A page leaves
objects that only a round after its end can take: at Python's 10 and 10, one request in fifteen waited 50 to
100 ms for those of all before it, now 15 to 30 ms; old rounds are as rare as before.
"""


def leave_out_what_stays() -> None:
    """What is there by now stays: code, settings, templates. Called once a process has read them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
