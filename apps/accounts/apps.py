"""Django's entry for this app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Names the app; at start it registers how REST describes its ways in."""

    name = "apps.accounts"
    label = "accounts"

    def ready(self) -> None:
        """The description's extensions register by being imported."""
        import apps.accounts.schema  # noqa: F401
