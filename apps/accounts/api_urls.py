"""REST addresses of oneself and one's tokens."""

from django.urls import path

from apps.accounts import api

urlpatterns = [
    path("me", api.MeView.as_view(), name="api-me"),
    path("tokens", api.TokensView.as_view(), name="api-tokens"),
    path("tokens/<uuid:token_id>", api.TokenView.as_view(), name="api-token"),
]
