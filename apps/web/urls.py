"""The addresses of HTTP itself that are no REST resources."""

from django.urls import path

from apps.web import description, views

urlpatterns = [
    path("api/", description.page, name="api-page"),
    path("problems/<slug:code>", views.problem_code, name="problem-code"),
    path("healthz", views.live, name="healthz"),
    path("readyz", views.ready, name="readyz"),
]
