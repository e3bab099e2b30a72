"""Every REST route, below `/api/v1/`, without a trailing slash."""

from django.urls import include, path

urlpatterns = [
    path("", include(f"apps.{app}.api_urls"))
    for app in ("web", "notices", "accounts", "cluster", "tenants", "quotas", "workloads", "metering")
]
