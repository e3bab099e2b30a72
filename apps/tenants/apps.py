"""Django's entry for this app."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Names the app; at start it tells accounts who knows which tenants somebody sees."""

    name = "apps.tenants"
    label = "tenants"

    def ready(self) -> None:
        """Tokens name tenants, and accounts sit below them."""
        from apps.accounts import reach
        from apps.tenants import selectors

        reach.answered_by(selectors.seen_among)
