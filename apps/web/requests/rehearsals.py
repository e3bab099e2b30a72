"""Doing something to see what comes of it, and keeping nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def rehearsal() -> Iterator[None]:
    """What is written inside is undone at the end; what it found stays with the caller, refusals too."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
