"""REST addresses that belong to no resource: health, and REST's own description."""

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.permissions import AllowAny

from apps.web import views

urlpatterns = [
    path("health/live", views.live, name="api-health-live"),
    path("health/ready", views.ready, name="api-health-ready"),
    path(
        "openapi.json",
        SpectacularJSONAPIView.as_view(permission_classes=[AllowAny], authentication_classes=[]),
        name="api-description",
    ),
]
