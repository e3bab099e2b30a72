"""REST addresses of flavors, offers, quotas, grants, quota requests, budgets, queues and single prices; the
list of prices is metering's.
"""

from django.urls import path

from apps.quotas import api, api_catalogue, api_sharing, asking_api, budget_api

urlpatterns = [
    path("flavors", api_catalogue.FlavorsView.as_view(), name="api-flavors"),
    path("flavors/<str:key>", api_catalogue.FlavorView.as_view(), name="api-flavor"),
    path("offers", api_catalogue.OffersView.as_view(), name="api-offers"),
    path("offers/<str:key>", api_catalogue.OfferView.as_view(), name="api-offer"),
    path("prices/<str:key>", api_catalogue.PriceView.as_view(), name="api-price"),
    path("quotas", api.QuotasView.as_view(), name="api-quotas"),
    path("quotas/<str:key>", api.QuotaView.as_view(), name="api-quota"),
    path("quotas/<str:key>/move", api.QuotaMoveView.as_view(), name="api-quota-move"),
    path("grants", asking_api.GrantsView.as_view(), name="api-grants"),
    path("grants/<str:key>", asking_api.GrantView.as_view(), name="api-grant"),
    path("grants/<str:key>/end", asking_api.GrantEndView.as_view(), name="api-grant-end"),
    path("quota-requests", asking_api.RequestsView.as_view(), name="api-quota-requests"),
    path("quota-requests/<str:key>", asking_api.RequestView.as_view(), name="api-quota-request"),
    path("quota-requests/<str:key>/approve", asking_api.ApproveView.as_view(), name="api-quota-approve"),
    path("quota-requests/<str:key>/decline", asking_api.DeclineView.as_view(), name="api-quota-decline"),
    path("quota-requests/<str:key>/withdraw", asking_api.WithdrawView.as_view(), name="api-quota-withdraw"),
    path("quota-requests/<str:key>/comment", asking_api.CommentView.as_view(), name="api-quota-comment"),
    path("budgets", budget_api.BudgetsView.as_view(), name="api-budgets"),
    path("budgets/<str:key>", budget_api.BudgetView.as_view(), name="api-budget"),
    path("tenants/<str:key>/sharing", api_sharing.TenantSharingView.as_view(), name="api-tenant-sharing"),
    path(
        "departments/<str:key>/sharing",
        api_sharing.DepartmentSharingView.as_view(),
        name="api-department-sharing",
    ),
    path("tenants/<str:key>/queue", budget_api.QueueView.as_view(), name="api-tenant-queue"),
    path("tenants/<str:key>/hold", budget_api.HoldView.as_view(), name="api-tenant-hold"),
    path("tenants/<str:key>/release", budget_api.ReleaseView.as_view(), name="api-tenant-release"),
]
