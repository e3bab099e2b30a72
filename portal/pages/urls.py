"""Every page's address, room by room."""

from django.urls import include, path

urlpatterns = [path("", include(f"portal.pages.{room}.urls")) for room in ("account", "team", "console")]
