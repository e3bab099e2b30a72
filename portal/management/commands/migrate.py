"""`manage.py migrate`, alone: two at once, of two machines or a Job that is tried again, wait for each other.

Django's own holds no lock: the second would meet half of the first's work. SQLite has one writer anyway.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

LOCK = 0x616C6C6F746D656E
"""One number for all installations: PostgreSQL keeps advisory locks per database."""


class Command(migrate.Command):
    """Django's, under a lock of the database that ends with its connection."""

    def handle(self, *args: Any, **options: Any) -> None:
        only_looks = options["plan"] or options["check_unapplied"]
        connection = connections[options["database"]]
        if only_looks or connection.vendor != "postgresql":
            super().handle(*args, **options)
            return
        with self._alone(connection):
            super().handle(*args, **options)

    @contextmanager
    def _alone(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            if cursor.fetchone() != (True,):
                self.stdout.write("Another one migrates this database; waiting for it.")
                cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        try:
            yield
        finally:
            # A connection that was lost has taken its lock along.
            if connection.is_usable():
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
