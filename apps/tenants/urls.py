"""The addresses of people, departments, tenants' lists, members and service accounts."""

from django.urls import path

from apps.tenants import views, views_isolation

_MEMBERS = "t/<slug:tenant>/members/"
_ACCOUNT = f"{_MEMBERS}<uuid:account>/"

urlpatterns = [
    path("console/tenants/", views.tenants_page, name="console-tenants"),
    path("console/departments/", views.departments_page, name="console-departments"),
    path("console/departments/<slug:department>/", views.department_page, name="console-department"),
    path("console/departments/<slug:department>/delete/", views.delete_department, name="delete-department"),
    path("console/users/", views.users_page, name="console-users"),
    path("console/users/<str:username>/reset-password/", views.reset_password, name="reset-password"),
    path("console/users/<str:username>/disable/", views.set_active, {"verb": "disable"}, name="disable-user"),
    path("console/users/<str:username>/enable/", views.set_active, {"verb": "enable"}, name="enable-user"),
    path("t/<slug:tenant>/isolation/", views_isolation.isolation, name="isolation"),
    path("t/<slug:tenant>/isolation/sleep/", views_isolation.rest, {"verb": "sleep"}, name="vcluster-sleep"),
    path("t/<slug:tenant>/isolation/wake/", views_isolation.rest, {"verb": "wake"}, name="vcluster-wake"),
    path("t/<slug:tenant>/isolation/check/", views_isolation.check, name="attest"),
    path(_MEMBERS, views.members_page, name="members"),
    path(f"{_MEMBERS}kubeconfig/", views.kubeconfig_file, name="kubeconfig"),
    path(f"{_MEMBERS}accounts/", views.add_account, name="add-account"),
    path(f"{_MEMBERS}remove/<str:username>/", views.remove_member, name="remove-member"),
    path(_ACCOUNT, views.account_page, name="account"),
    path(f"{_ACCOUNT}delete/", views.delete_account, name="delete-account"),
    path(f"{_ACCOUNT}<uuid:token>/revoke/", views.revoke_account_token, name="revoke-account-token"),
]
