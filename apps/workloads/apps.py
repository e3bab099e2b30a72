"""Django's entry for this app."""

from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.workloads"
    label = "workloads"
