"""The collector of garbage looks at what requests and tasks make, not at what a process has from start."""

import gc

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
