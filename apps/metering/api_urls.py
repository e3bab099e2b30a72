"""REST routes of metering, below /api/v1/."""

from django.urls import path

from apps.metering import (
    api,
    api_usage,
    correcting_api,
    findings_api,
    ledger_api,
    lending_api,
    prices_api,
    statements_api,
    telemetry_api,
)

urlpatterns = [
    path("tenants/<str:key>/lending", lending_api.LendingView.as_view(), name="api-tenant-lending"),
    path("allocations", api.AllocationList.as_view(), name="api-allocations"),
    path("allocations/balance", ledger_api.BalanceView.as_view(), name="api-balance"),
    path("allocations/<str:key>", api.AllocationView.as_view(), name="api-allocation"),
    path("allocations/<str:key>/correct", correcting_api.CorrectView.as_view(), name="api-correct"),
    path("prices", prices_api.PricesView.as_view(), name="api-prices"),
    path("costs", api.CostList.as_view(), name="api-costs"),
    path("utilization", api_usage.UtilizationList.as_view(), name="api-utilization"),
    path("utilization/states", api_usage.UtilizationStates.as_view(), name="api-utilization-states"),
    path("utilization/summary", api_usage.UtilizationSummary.as_view(), name="api-utilization-summary"),
    path(
        "workloads/<str:pk>/utilization",
        api_usage.WorkloadUtilization.as_view(),
        name="api-workload-utilization",
    ),
    path("workloads/<str:pk>/cost", api.WorkloadCost.as_view(), name="api-workload-cost"),
    path("statements", statements_api.StatementsView.as_view(), name="api-statements"),
    path("statements/<str:key>", statements_api.StatementView.as_view(), name="api-statement"),
    path(
        "statements/<str:key>/<slug:file>.csv",
        statements_api.StatementFile.as_view(),
        name="api-statement-file",
    ),
    path("tenants/<str:key>/bill", statements_api.BillView.as_view(), name="api-bill"),
    path("budgets/<str:key>/burn-down", statements_api.BurnView.as_view(), name="api-burn-down"),
    path("findings", findings_api.FindingsView.as_view(), name="api-findings"),
    path("findings/<str:key>", findings_api.FindingView.as_view(), name="api-finding"),
    path("findings/<str:key>/dismiss", findings_api.DismissView.as_view(), name="api-finding-dismiss"),
    path("findings/<str:key>/snooze", findings_api.SnoozeView.as_view(), name="api-finding-snooze"),
    path("findings/<str:key>/extend", findings_api.ExtendView.as_view(), name="api-finding-extend"),
    path("findings/<str:key>/act", findings_api.ActView.as_view(), name="api-finding-act"),
    path("nodes/<str:name>/telemetry", telemetry_api.NodeTelemetryView.as_view(), name="api-node-telemetry"),
    path("telemetry-issues", telemetry_api.TelemetryIssuesView.as_view(), name="api-telemetry-issues"),
    path("tenants/<str:key>/idle-policy", findings_api.IdlePolicyView.as_view(), name="api-idle-policy"),
]
