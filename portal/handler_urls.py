"""The addresses of HTTP itself that are no REST resources."""

from django.urls import path

from portal import handlers
from portal.api.declared import description

urlpatterns = [
    path("api/", description.page, name="api-page"),
    path("problems/<slug:code>", handlers.problem_code, name="problem-code"),
    path("healthz", handlers.live, name="healthz"),
    path("readyz", handlers.ready, name="readyz"),
    path("metrics", handlers.metrics, name="metrics"),
]
