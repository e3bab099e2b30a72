"""REST addresses of one's own messages."""

from django.urls import path

from apps.notices import api

urlpatterns = [
    path("notifications", api.NoticesView.as_view(), name="api-notifications"),
    path("notifications/read", api.NoticesReadView.as_view(), name="api-notifications-read"),
    path("notifications/<uuid:notice>", api.NoticeView.as_view(), name="api-notification"),
    path("notifications/<uuid:notice>/read", api.NoticeReadView.as_view(), name="api-notification-read"),
]
