"""The scene of the matrix, with a database that complains of what PostgreSQL would refuse."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from tests.matrix.conftest import scene

__all__ = ["scene"]


class WouldFail(AssertionError):
    """SQLite keeps it; PostgreSQL refuses it, and the request would end in a server error."""


@pytest.fixture(autouse=True)
def as_strict_as_postgresql() -> Iterator[None]:
    with connection.execute_wrapper(_refuse_nul):
        yield


def _refuse_nul(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 Django's signature
    flat = [value for row in params or () for value in row] if many else list(params or ())
    if any(isinstance(value, str) and "\x00" in value for value in flat):
        raise WouldFail(f"U+0000 reaches the database: {sql[:200]}")
    return execute(sql, params, many, context)
