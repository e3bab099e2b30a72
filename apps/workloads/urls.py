"""The addresses of home, of a tenant, of its workloads, and of the console. Pages of use are metering's."""

from django.urls import path

from apps.workloads import streams, tenant_views, views, views_nodes

_WORKLOAD = "t/<slug:tenant>/workloads/<uuid:workload>/"

urlpatterns = [
    path("", views.home_page, name="home"),
    path("live/", streams.live, name="live"),
    path("t/<slug:tenant>/", views.tenant_page, name="tenant"),
    path("t/<slug:tenant>/workloads/", views.workloads_page, name="workloads"),
    path("t/<slug:tenant>/new/", views.new_kind, name="new"),
    path("t/<slug:tenant>/new/<slug:kind>/", views.new_offer, name="new-offer"),
    path("t/<slug:tenant>/new/<slug:kind>/<slug:offer>/", views.new_fields, name="new-fields"),
    path("t/<slug:tenant>/new/<slug:kind>/<slug:offer>/review/", views.new_review, name="new-review"),
    path(f"{_WORKLOAD}logs/", views.logs_page, name="workload-logs"),
    path(f"{_WORKLOAD}yaml/", views.yaml_page, name="workload-yaml"),
    path(f"{_WORKLOAD}stop/", views.stop_page, name="workload-stop"),
    path(f"{_WORKLOAD}delete/", views.delete_page, name="workload-delete"),
    path(f"{_WORKLOAD}resume/", views.resume, name="workload-resume"),
    path(f"{_WORKLOAD}extend/", views.extend, name="workload-extend"),
    path("console/tenants/<slug:tenant>/", tenant_views.tenant_page, name="console-tenant"),
    path(
        "console/tenants/<slug:tenant>/change/<slug:what>/", tenant_views.change, name="console-tenant-change"
    ),
    path("console/tenants/<slug:tenant>/delete/", tenant_views.delete, name="console-tenant-delete"),
    path("console/tenants/<slug:tenant>/act/<slug:verb>/", tenant_views.act, name="console-tenant-act"),
    path("console/queue/", views.queue_page, name="console-queue"),
    path("console/queue/<uuid:workload>/<slug:arrangement>/", views.arrange_page, name="console-arrange"),
    path("console/nodes/", views.nodes_page, name="console-nodes"),
    path("console/nodes/<str:node>/handover/", views_nodes.handover_page, name="console-node-handover"),
]
