"""Django's entry for this app."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.web"
    label = "web"
