"""Django's entry for REST."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Names REST; at start it registers how REST describes its ways in."""

    name = "portal.api"
    label = "api"

    def ready(self) -> None:
        """The description's extensions register by being imported."""
        import portal.api.base.ways_in  # noqa: F401
