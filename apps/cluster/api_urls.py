"""REST addresses of clusters and devices."""

from django.urls import path

from apps.cluster import api

urlpatterns = [
    path("clusters", api.ClustersView.as_view(), name="api-clusters"),
    path("clusters/<str:cluster>", api.ClusterView.as_view(), name="api-cluster"),
    path("devices", api.DevicesView.as_view(), name="api-devices"),
    path("devices/<path:uuid>", api.DeviceView.as_view(), name="api-device"),
]
