"""`?wait=30`: answer when the object is done, at the latest after that many seconds.

Polls our own row, never the cluster.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import close_old_connections
from rest_framework.request import Request

from portal.api.declared.queries import WholeNumber

LONGEST_SECONDS = 60
STEP_SECONDS = 0.25
WAIT = WholeNumber(
    "wait",
    "Answer once the change is done, or after this many seconds.",
    default=0,
    lowest=0,
    highest=LONGEST_SECONDS,
)

Thing = TypeVar("Thing")


def wait_for(request: Request, reload: Callable[[], Thing], done: Callable[[Thing], bool]) -> Thing:
    """Reads the object again until it is `done` or the seconds are over; without `wait`, once.

    Call it outside a transaction: inside, other processes' writes would stay invisible.
    """
    until = time.monotonic() + WAIT.of(request)
    thing = reload()
    while not done(thing) and time.monotonic() < until:
        close_old_connections()  # who waits keeps no connection from others
        time.sleep(STEP_SECONDS)
        thing = reload()
    return thing
