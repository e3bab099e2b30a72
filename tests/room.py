"""Room for the calls of a test: a tenth of all work was asking the system for memory, 16 KiB at a time.

A plugin. CPython keeps the frames of Python's functions in chunks. A call that no longer fits into the last
one maps another, and its return unmaps it again: wherever a loop stands at the end of a chunk, every call in
it pays for both. Requests are answered so far down that some loop always does. The chunk of one frame that
asks for a megabyte is twice as large, and the other half has room for all that is called from there.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from _pytest import runner

WORDS = 150_000
"""What the frame asks for: pages that nobody touches cost nothing."""


def _call(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


_call_with_room = FunctionType(_call.__code__.replace(co_stacksize=WORDS), globals())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    """As pytest does, some frames further down."""
    return _call_with_room(runner.pytest_runtest_protocol, item, nextitem)
