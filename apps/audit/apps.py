"""Django's entry for this app."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.audit"
    label = "audit"
