"""The scene of the matrix, on a database that complains of what PostgreSQL would refuse."""

from tests.hostile.conftest import as_strict_as_postgresql
from tests.matrix.conftest import scene

__all__ = ["as_strict_as_postgresql", "scene"]
