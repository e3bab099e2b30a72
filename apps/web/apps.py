"""Django's entry for this app."""

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class WebConfig(AppConfig):
    """Names the app; at start it sees to it that each new connection reads times quickly."""

    name = "apps.web"
    label = "web"

    def ready(self) -> None:
        """The driver of PostgreSQL is loaded with the first connection, not before."""
        connection_created.connect(_read_times_quickly, dispatch_uid="timestamps")


def _read_times_quickly(connection: Any, **_: object) -> None:
    if connection.vendor == "postgresql":
        from apps.web.stores.timestamps import UtcLoader

        connection.connection.adapters.register_loader("timestamptz", UtcLoader)
