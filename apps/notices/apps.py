"""Django's entry for this app."""

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.notices"
    label = "notices"
