"""Which versions an installation runs."""

import platform
import sys
from importlib.metadata import distributions

from django.db import connection

VERSION = "0.1.0"
"""Of the product; that of pyproject.toml and of the chart."""


def versions() -> dict[str, object]:
    """Of the product, Python, the system, the database's server, and every package that is installed."""
    return {
        "allotment": VERSION,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "database": f"{connection.vendor} {'.'.join(map(str, connection.get_database_version()))}",
        "packages": {
            str(each.metadata["Name"]): each.version
            for each in sorted(distributions(), key=lambda each: str(each.metadata["Name"]).lower())
        },
    }
