"""The tests' SQLite database: migrated once for a state of the code, then copied.

A plugin. The migrations take some 8 s of work, and every process of every run would do it again. The first
one does it and keeps what came of it, named after all the code that could matter; the others copy that file.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import django
import pytest
from django.core.management.commands import migrate
from django.db import connection

from tests.controlplane.binaries import cache_root, exclusive

APPS = Path(__file__).resolve().parents[1] / "apps"
FOLDER = cache_root().parent / "databases"
KEPT_SECONDS = 7 * 24 * 3600


class Command(migrate.Command):
    """`migrate`, which fills an empty SQLite database with the copy; any other is migrated step by step."""

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.vendor != "sqlite" or options["app_label"] or connection.introspection.table_names():
            super().handle(*args, **options)
            return
        with exclusive(FOLDER / "lock"):
            kept = template()
            if not kept.exists():
                super().handle(*args, **options)
                _keep(kept)
                return
        with closing(sqlite3.connect(kept)) as source:
            source.backup(connection.connection)


def template() -> Path:
    """Where the database of this code is kept. Migrations use what the apps define, so all of it counts."""
    digest = hashlib.sha256(f"{django.VERSION} {sqlite3.sqlite_version}".encode())
    for source in sorted(APPS.rglob("*.py")):
        digest.update(str(source.relative_to(APPS)).encode() + source.read_bytes())
    return FOLDER / f"{digest.hexdigest()[:24]}.sqlite3"


def _keep(kept: Path) -> None:
    made = kept.with_suffix(".new")
    made.unlink(missing_ok=True)
    with closing(sqlite3.connect(made)) as target:
        connection.connection.backup(target)
    made.rename(kept)
    for old in FOLDER.glob("*.sqlite3"):
        if old.stat().st_mtime < time.time() - KEPT_SECONDS:
            old.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """Before pytest-django makes the database; the real command is back at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "Command", Command)
        yield
