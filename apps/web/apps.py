"""Django's entry for this app."""

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from apps.web.stores import outage


class WebConfig(AppConfig):
    """Names the app; at start it sees to it that a new connection reads times quickly, and ends an outage."""

    name = "apps.web"
    label = "web"

    def ready(self) -> None:
        """The driver of PostgreSQL is loaded with the first connection, not before."""
        connection_created.connect(_read_times_quickly, dispatch_uid="timestamps")
        connection_created.connect(_answers, dispatch_uid="outage")


def _answers(**_: object) -> None:
    outage.database.over()


def _read_times_quickly(connection: Any, **_: object) -> None:
    if connection.vendor == "postgresql":
        from apps.web.stores.timestamps import UtcLoader

        connection.connection.adapters.register_loader("timestamptz", UtcLoader)
