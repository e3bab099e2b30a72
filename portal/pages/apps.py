"""Django's entry for the pages: it finds their template tags."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    """Names the pages; they have no models and no start-up work."""

    name = "portal.pages"
    label = "pages"
