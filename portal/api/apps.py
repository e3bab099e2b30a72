"""Django's entry for REST."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Names REST; it has no start-up work. Only a process that asks for its routes reads them."""

    name = "portal.api"
    label = "api"
