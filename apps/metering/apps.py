"""Django's entry for this app."""

from django.apps import AppConfig


class MeteringConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.metering"
    label = "metering"
