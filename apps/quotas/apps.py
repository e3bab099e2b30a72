"""Django's entry for this app."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.quotas"
    label = "quotas"
