"""Every route of the installation, mounted once."""

from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("portal.api.urls")),
    path("", include("portal.handler_urls")),
    path("", include("portal.pages.urls")),
]

handler400 = "portal.handlers.bad_request"
handler404 = "portal.handlers.not_found"
handler500 = "portal.handlers.server_error"
