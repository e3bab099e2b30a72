"""Django's entry for this app."""

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.cluster"
    label = "cluster"
