"""Django's entry for this app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Names the app; it has no start-up work."""

    name = "apps.accounts"
    label = "accounts"
