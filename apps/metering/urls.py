"""The addresses of use, bills and findings; a page stands here when it reads what was metered."""

from django.urls import path

from apps.metering import (
    views,
    views_bill,
    views_corrections,
    views_findings,
    views_lending,
    views_prices,
    views_telemetry,
)

_WORKLOAD = "t/<slug:tenant>/workloads/<uuid:workload>/"

_FINDING = "t/<slug:tenant>/findings/<uuid:finding>/"

urlpatterns = [
    path("t/<slug:tenant>/quota/", views_lending.quota_page, name="team-quota"),
    path("t/<slug:tenant>/quota/lent-and-borrowed.csv", views_lending.lending_file, name="lending-file"),
    path(_WORKLOAD, views.workload_page, name="workload"),
    path(f"{_WORKLOAD}allocations/", views_corrections.team_allocations_page, name="workload-allocations"),
    path(f"{_WORKLOAD}use.csv", views.workload_file, name="workload-use-file"),
    path("t/<slug:tenant>/usage/", views.usage_page, name="usage"),
    path("t/<slug:tenant>/usage/<slug:chart>.csv", views.usage_file, name="usage-file"),
    path("t/<slug:tenant>/allocations/", views_corrections.tenant_page, name="tenant-allocations"),
    path("t/<slug:tenant>/allocations.csv", views_corrections.tenant_file, name="tenant-allocations-file"),
    path("t/<slug:tenant>/bill/", views_bill.bill_page, name="bill"),
    path("t/<slug:tenant>/bill/close/", views_bill.close_month, name="bill-close"),
    path("t/<slug:tenant>/bill/<slug:file>.csv", views_bill.bill_file, name="bill-file"),
    path(
        "console/departments/<slug:department>/budget/",
        views_bill.department_page,
        name="console-department-budget",
    ),
    path(
        "console/departments/<slug:department>/budget.csv",
        views_bill.department_file,
        name="console-department-budget-file",
    ),
    path("console/", views.fleet_page, name="console"),
    path("console/usage/<slug:chart>.csv", views.fleet_file, name="console-file"),
    path("help/figures/", views.how_page, name="how"),
    path("t/<slug:tenant>/findings/", views_findings.findings_page, name="findings"),
    path("t/<slug:tenant>/findings/findings.csv", views_findings.findings_file, name="findings-file"),
    path(_FINDING, views_findings.finding_page, name="finding"),
    path(f"{_FINDING}use.csv", views_findings.use_file, name="finding-use-file"),
    path(f"{_FINDING}<slug:answer>/", views_findings.answer_page, name="finding-act"),
    path("t/<slug:tenant>/idle-policy/", views_findings.policy_page, name="idle-policy"),
    path("console/findings/", views_findings.console_page, name="console-findings"),
    path("console/findings/findings.csv", views_findings.findings_file, name="console-findings-file"),
    path(
        "console/workloads/<uuid:workload>/allocations/",
        views_corrections.allocations_page,
        name="console-allocations",
    ),
    path(
        "console/allocations/<uuid:allocation>/", views_corrections.allocation_page, name="console-allocation"
    ),
    path("console/offers/<slug:offer>/prices/", views_prices.price_page, name="console-prices"),
    path("console/prices/", views_prices.resource_prices_page, name="console-resource-prices"),
    path("console/nodes/<str:node>/", views_telemetry.node_page, name="console-node"),
    path("console/telemetry/", views_telemetry.telemetry_page, name="console-telemetry"),
]
