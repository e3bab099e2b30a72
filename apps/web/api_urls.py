"""REST addresses that belong to no resource: health, and REST's own description."""

from django.urls import path

from apps.web import views
from apps.web.description import DescriptionView

urlpatterns = [
    path("health/live", views.live, name="api-health-live"),
    path("health/ready", views.ready, name="api-health-ready"),
    path("openapi.json", DescriptionView.as_view(), name="api-description"),
]
