"""The addresses of requests and of the console's pages of offers and quotas; a team's page, prices and
a department's budget are metering's.
"""

from django.urls import path

from apps.quotas import team_acts, team_views, views

_QUOTA = "console/quotas/<slug:tenant>/<slug:offer>/"

_REQUEST = "t/<slug:tenant>/quota/requests/<uuid:quota_request>/"

urlpatterns = [
    path("t/<slug:tenant>/quota/move/", team_acts.move_page, name="quota-move"),
    path("t/<slug:tenant>/quota/change/<slug:act>/", team_acts.act_page, name="quota-act"),
    path("t/<slug:tenant>/quota/grants/<uuid:grant>/end/", team_acts.end_grant, name="grant-end"),
    path("t/<slug:tenant>/quota/quota.csv", team_views.quota_file, name="quota-file"),
    path(_REQUEST, team_views.request_page, name="quota-request"),
    path(f"{_REQUEST}withdraw/", team_views.withdraw, name="quota-withdraw"),
    path("console/requests/", team_views.requests_page, name="console-requests"),
    path("console/requests/<uuid:quota_request>/", team_views.decide_page, name="console-request"),
    path("console/offers/", views.offers_page, name="console-offers"),
    path("console/offers/adopt/", views.adopt, name="console-adopt"),
    path("console/offers/<slug:offer>/", views.offer_page, name="console-offer"),
    path("console/quotas/", views.quotas_page, name="console-quotas"),
    path("console/sharing/tenants/<slug:tenant>/", views.weight_page, name="console-weight"),
    path("console/sharing/departments/<slug:department>/", views.share_page, name="console-share"),
    path(_QUOTA, views.quota_page, name="console-quota"),
    path(f"{_QUOTA}remove/", views.take_away, name="console-quota-remove"),
]
