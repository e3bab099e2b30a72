"""The REST routes of this app alone, so that its suites need no other app's surfaces."""

from django.urls import include, path

urlpatterns = [path("api/v1/", include("apps.cluster.api_urls")), path("", include("apps.web.urls"))]
handler404 = "apps.web.views.not_found"
handler500 = "apps.web.views.server_error"
