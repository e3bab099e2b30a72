"""Django's entry for this app."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.tenants"
    label = "tenants"
