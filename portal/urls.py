"""Every route of the installation, mounted once. A page belongs to the highest app it reads."""

from django.urls import include, path

urlpatterns = [
    # First: addresses are tried in order, and programs ask most often.
    path("api/v1/", include("portal.api_urls")),
    path("", include("apps.web.urls")),
    path("", include("apps.accounts.urls")),
    path("", include("apps.tenants.urls")),
    path("", include("apps.quotas.urls")),
    path("", include("apps.workloads.urls")),
    path("", include("apps.metering.urls")),
]

handler400 = "apps.web.views.bad_request"
handler404 = "apps.web.views.not_found"
handler500 = "apps.web.views.server_error"
