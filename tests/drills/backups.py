"""A backup of the tests' own database, as an operator makes and loads one."""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from django.db import connection


class Backup:
    """Of the whole database, taken now: by `pg_dump` on PostgreSQL, by SQLite's own copy else."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "backup"
        if connection.vendor == "postgresql":
            _run("pg_dump", "--format=custom", "--file", str(self.path))
        else:
            with sqlite3.connect(self.path) as copy:
                _sqlite().backup(copy)

    def load(self) -> None:
        """The database is what it was then, whatever happened since: loaded into an empty one of its name."""
        if connection.vendor == "postgresql":
            connection.close()
            _run("dropdb", "--force", "--maintenance-db=postgres", _name())
            _run("createdb", "--maintenance-db=postgres", _name())
            _run("pg_restore", "--single-transaction", "--dbname", _name(), str(self.path))
        else:
            with sqlite3.connect(self.path) as copy:
                copy.backup(_sqlite())


def _sqlite() -> Any:
    connection.ensure_connection()
    return connection.connection


def _name() -> str:
    return str(connection.settings_dict["NAME"])


def _run(program: str, *options: str) -> None:
    wanted = connection.settings_dict
    found = shutil.which(program)
    assert found, f"{program} is not here: Debian has it in postgresql-client"
    of = {
        "PGHOST": "HOST",
        "PGPORT": "PORT",
        "PGUSER": "USER",
        "PGPASSWORD": "PASSWORD",
        "PGDATABASE": "NAME",
    }
    given = {name: str(wanted[key]) for name, key in of.items() if wanted[key]}
    subprocess.run([found, *options], check=True, env={**os.environ, **given})
