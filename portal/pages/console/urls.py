"""The addresses of the console."""

from django.urls import path

from portal.pages.console.audit import audit_views
from portal.pages.console.fleet import (
    allocation_views,
    drift_views,
    finding_views,
    fleet_views,
    handover_views,
    node_views,
    queue_views,
    telemetry_views,
)
from portal.pages.console.health import health_views
from portal.pages.console.images import image_views
from portal.pages.console.people import invitation_views, rule_views, viewing_views
from portal.pages.console.quotas import budget_views, catalogue_views, price_views, request_views
from portal.pages.console.records import record_views
from portal.pages.console.templates import template_views
from portal.pages.console.tenants import tenancy_views, tenant_views
from portal.pages.team.usage import finding_views as team_finding_views

_QUOTA = "console/quotas/<slug:tenant>/<slug:offer>/"

urlpatterns = [
    path("console/tenants/", tenancy_views.tenants_page, name="console-tenants"),
    path("console/departments/", tenancy_views.departments_page, name="console-departments"),
    path("console/departments/<slug:department>/", tenancy_views.department_page, name="console-department"),
    path(
        "console/departments/<slug:department>/delete/",
        tenancy_views.delete_department,
        name="delete-department",
    ),
    path("console/users/", tenancy_views.users_page, name="console-users"),
    path("console/users/<str:username>/reset-password/", tenancy_views.reset_password, name="reset-password"),
    path(
        "console/users/<str:username>/reset-second-factor/",
        rule_views.reset_second_factor,
        name="reset-second-factor",
    ),
    path("console/users/<str:username>/disable/", tenancy_views.disable, name="disable-user"),
    path("console/users/<str:username>/enable/", tenancy_views.enable, name="enable-user"),
    path("console/users/<str:username>/view-as/", viewing_views.begin_view, name="view-as"),
    path("view-as/end/", viewing_views.end_view, name="end-view"),
    path("console/users/<str:username>/sessions/", rule_views.sessions_page, name="console-sessions"),
    path("console/users/<str:username>/sessions/end/", rule_views.end_sessions, name="end-sessions"),
    path("console/sign-in/", rule_views.sign_in_page, name="console-sign-in"),
    path("console/sign-in/rules/<uuid:rule>/remove/", rule_views.remove_rule, name="remove-group-rule"),
    path("console/audit/", audit_views.audit_page, name="console-audit"),
    path("console/audit/check/", audit_views.check_page, name="console-audit-check"),
    path("console/drift/", drift_views.drift_page, name="console-drift"),
    path("console/drift/check/", drift_views.check, name="console-drift-check"),
    path("console/drift/<uuid:drift>/", drift_views.repair_page, name="console-drift-repair"),
    path("console/drift/tenants/<slug:tenant>/", drift_views.tenant_page, name="console-drift-tenant"),
    path("console/health/", health_views.health_page, name="console-health"),
    path("console/records/", record_views.index_page, name="records"),
    path("console/records/<slug:app>/<slug:model>/", record_views.list_page, name="records-list"),
    path("console/records/<slug:app>/<slug:model>/<path:key>/", record_views.row_page, name="records-row"),
    path("console/requests/", request_views.requests_page, name="console-requests"),
    path("console/requests/<uuid:quota_request>/", request_views.decide_page, name="console-request"),
    path(
        "console/requests/invitations/<uuid:invitation>/",
        invitation_views.decide_page,
        name="console-invitation",
    ),
    path("console/offers/", catalogue_views.offers_page, name="console-offers"),
    path("console/offers/adopt/", catalogue_views.adopt, name="console-adopt"),
    path("console/offers/<slug:offer>/", catalogue_views.offer_page, name="console-offer"),
    path("console/images/", image_views.images_page, name="console-images"),
    path("console/images/<slug:image>/", image_views.image_page, name="console-image"),
    path("console/images/<slug:image>/retire/", image_views.retire, name="console-image-retire"),
    path("console/images/<slug:image>/restore/", image_views.restore, name="console-image-restore"),
    path("console/image-rules/", image_views.rule_page, name="console-image-rules"),
    path("console/image-rules/<slug:tenant>/", image_views.rule_page, name="console-image-rule"),
    path("console/templates/", template_views.templates_page, name="console-templates"),
    path("console/shipped-templates/", template_views.add_shipped, name="console-templates-shipped"),
    path("console/templates/<slug:template>/", template_views.template_page, name="console-template"),
    path("console/templates/<slug:template>/edit/", template_views.edit_page, name="console-template-edit"),
    path(
        "console/templates/<slug:template>/diff/<int:before>/<int:after>/",
        template_views.diff_page,
        name="console-template-diff",
    ),
    path("console/templates/<slug:template>.yaml", template_views.source_file, name="console-template-file"),
    path("console/templates/<slug:template>/retire/", template_views.retire, name="console-template-retire"),
    path(
        "console/templates/<slug:template>/restore/", template_views.restore, name="console-template-restore"
    ),
    path("console/quotas/", catalogue_views.quotas_page, name="console-quotas"),
    path("console/sharing/tenants/<slug:tenant>/", catalogue_views.weight_page, name="console-weight"),
    path("console/sharing/departments/<slug:department>/", catalogue_views.share_page, name="console-share"),
    path(_QUOTA, catalogue_views.quota_page, name="console-quota"),
    path(f"{_QUOTA}remove/", catalogue_views.take_away, name="console-quota-remove"),
    path("console/tenants/<slug:tenant>/", tenant_views.tenant_page, name="console-tenant"),
    path(
        "console/tenants/<slug:tenant>/change/<slug:what>/", tenant_views.change, name="console-tenant-change"
    ),
    path("console/tenants/<slug:tenant>/delete/", tenant_views.delete, name="console-tenant-delete"),
    path("console/tenants/<slug:tenant>/act/<slug:verb>/", tenant_views.act, name="console-tenant-act"),
    path("console/queue/", queue_views.queue_page, name="console-queue"),
    path(
        "console/queue/<uuid:workload>/<slug:arrangement>/", queue_views.arrange_page, name="console-arrange"
    ),
    path("console/nodes/", node_views.nodes_page, name="console-nodes"),
    path("console/nodes/<str:node>/handover/", handover_views.handover_page, name="console-node-handover"),
    path(
        "console/departments/<slug:department>/budget/",
        budget_views.department_page,
        name="console-department-budget",
    ),
    path(
        "console/departments/<slug:department>/budget.csv",
        budget_views.department_file,
        name="console-department-budget-file",
    ),
    path("console/", fleet_views.fleet_page, name="console"),
    path("console/usage/<slug:chart>.csv", fleet_views.fleet_file, name="console-file"),
    path("console/findings/", finding_views.console_page, name="console-findings"),
    path("console/findings/findings.csv", team_finding_views.findings_file, name="console-findings-file"),
    path(
        "console/workloads/<uuid:workload>/allocations/",
        allocation_views.allocations_page,
        name="console-allocations",
    ),
    path(
        "console/allocations/<uuid:allocation>/", allocation_views.allocation_page, name="console-allocation"
    ),
    path("console/offers/<slug:offer>/prices/", price_views.price_page, name="console-prices"),
    path("console/prices/", price_views.resource_prices_page, name="console-resource-prices"),
    path("console/nodes/<str:node>/", telemetry_views.node_page, name="console-node"),
    path("console/telemetry/", telemetry_views.telemetry_page, name="console-telemetry"),
]
