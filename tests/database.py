"""The tests' database: migrated once for a state of the code, then copied.

A plugin. The migrations take some 8 s of work, and every process of every run would do it again. The first
one does it and keeps what came of it, named after all the code that could matter; the others copy that: of
SQLite a file in the user's cache, of PostgreSQL a database of the same server.
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
from django.core.management.commands import flush
from django.db import DataError, connection
from django.db.models import Model
from django.db.models.signals import pre_save

from portal.management.commands import migrate
from tests.controlplane.binaries import cache_root, exclusive

APPS = Path(__file__).resolve().parents[1] / "apps"
FOLDER = cache_root().parent / "databases"
"""Of the files, and of the lock."""
KEPT_SECONDS = 7 * 24 * 3600


def no_longer_than_its_column(instance: Model, **_: Any) -> None:
    """PostgreSQL refuses a text that is longer than its column, SQLite takes it: here both refuse."""
    for field in instance._meta.concrete_fields:
        value = instance.__dict__.get(field.attname)
        if isinstance(value, str) and field.max_length and len(value) > field.max_length:
            raise DataError(f"{field}: {len(value)} characters, and the column takes {field.max_length}")


pre_save.connect(no_longer_than_its_column)


class Command(migrate.Command):
    """`migrate`, which fills an empty database with the copy; any other is migrated step by step."""

    def handle(self, *args: Any, **options: Any) -> None:
        if options["app_label"] or connection.introspection.table_names():
            super().handle(*args, **options)
            return
        is_kept, keep, fill = (
            (_in_server, _keep_in_server, _fill_from_server)
            if connection.vendor == "postgresql"
            else (_in_folder, _keep_in_folder, _fill_from_folder)
        )
        name = digest()
        with exclusive(FOLDER / "lock"):
            if not is_kept(name):
                super().handle(*args, **options)
                keep(name)
                return
        fill(name)


def digest() -> str:
    """The name of the database of this code. Migrations use what the apps define, so all of it counts."""
    found = hashlib.sha256(f"{django.VERSION} {sqlite3.sqlite_version}".encode())
    for source in sorted(APPS.rglob("*.py")):
        found.update(str(source.relative_to(APPS)).encode() + source.read_bytes())
    return f"migrated_{found.hexdigest()[:24]}"


def _in_folder(name: str) -> bool:
    return (FOLDER / name).exists()


def _keep_in_folder(name: str) -> None:
    made = FOLDER / f"{name}.new"
    made.unlink(missing_ok=True)
    with closing(sqlite3.connect(made)) as target:
        connection.connection.backup(target)
    made.rename(FOLDER / name)
    for old in FOLDER.glob("migrated_*"):
        if old.stat().st_mtime < time.time() - KEPT_SECONDS:
            old.unlink(missing_ok=True)


def _fill_from_folder(name: str) -> None:
    with closing(sqlite3.connect(FOLDER / name)) as source:
        source.backup(connection.connection)


def _in_server(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        return cursor.fetchone() is not None


def _keep_in_server(name: str) -> None:
    _copy(connection.settings_dict["NAME"], name)


def _fill_from_server(name: str) -> None:
    _copy(name, connection.settings_dict["NAME"])


def _copy(source: str, target: str) -> None:
    """PostgreSQL copies a database that nobody is connected to."""
    server: Any = connection
    server.close()
    server.close_pool()
    with server.creation._nodb_cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{target}"')
        cursor.execute(f'CREATE DATABASE "{target}" TEMPLATE "{source}"')


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """Before pytest-django makes the database; the real commands are back at the end.

    After each test with transactions of its own Django empties the database, and then makes content types and
    permissions as after a migration: the product uses neither, and they took most of the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "Command", Command)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_: None)
        yield
