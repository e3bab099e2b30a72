"""REST routes of metering, below /api/v1/."""

from django.urls import path

from apps.metering import api

urlpatterns = [
    path("allocations", api.AllocationList.as_view(), name="api-allocations"),
    path("costs", api.CostList.as_view(), name="api-costs"),
    path("workloads/<str:pk>/cost", api.WorkloadCost.as_view(), name="api-workload-cost"),
]
