"""REST routes of workloads, below /api/v1/."""

from django.urls import path

from apps.workloads import api, api_nodes, api_queue, api_reads, api_tenants

urlpatterns = [
    path("tenants/<str:key>", api_tenants.TenantView.as_view(), name="api-tenant"),
    path("workloads", api.WorkloadList.as_view(), name="api-workloads"),
    path("workloads/<str:pk>", api.WorkloadDetail.as_view(), name="api-workload"),
    path("workloads/<str:pk>/stop", api.StopWorkload.as_view(), name="api-workload-stop"),
    path("workloads/<str:pk>/resume", api.ResumeWorkload.as_view(), name="api-workload-resume"),
    path("workloads/<str:pk>/extend", api.ExtendWorkload.as_view(), name="api-workload-extend"),
    path("workloads/<str:pk>/move", api_queue.MoveWorkload.as_view(), name="api-workload-move"),
    path("workloads/<str:pk>/hold", api_queue.HoldWorkload.as_view(), name="api-workload-hold"),
    path("workloads/<str:pk>/release", api_queue.ReleaseWorkload.as_view(), name="api-workload-release"),
    path("workloads/<str:pk>/duplicate", api.DuplicateWorkload.as_view(), name="api-workload-duplicate"),
    path("workloads/<str:pk>/events", api_reads.WorkloadEvents.as_view(), name="api-workload-events"),
    path(
        "workloads/<str:pk>/manifests", api_reads.WorkloadManifests.as_view(), name="api-workload-manifests"
    ),
    path("workloads/<str:pk>/logs", api_reads.WorkloadLogs.as_view(), name="api-workload-logs"),
    path("nodes", api_nodes.NodesView.as_view(), name="api-nodes"),
    path("nodes/<str:name>", api_nodes.NodeView.as_view(), name="api-node"),
    path("nodes/<str:name>/assign", api_nodes.AssignNode.as_view(), name="api-node-assign"),
    path("nodes/<str:name>/release", api_nodes.ReleaseNode.as_view(), name="api-node-release"),
    path("events", api_reads.EventStream.as_view(), name="api-events"),
]
