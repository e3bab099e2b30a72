"""The REST routes of this app alone, so that its suites need no other app's surfaces."""

from django.urls import include, path

urlpatterns = [path("api/v1/", include("portal.api.urls")), path("", include("portal.handler_urls"))]
handler404 = "portal.handlers.not_found"
handler500 = "portal.handlers.server_error"
