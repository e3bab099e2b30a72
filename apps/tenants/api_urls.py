"""REST addresses of departments, tenants and members."""

from django.urls import path

from apps.tenants import api, api_access, api_attestation, api_departments, api_people, api_vcluster

urlpatterns = [
    path("departments", api_departments.DepartmentsView.as_view(), name="api-departments"),
    path("departments/<str:key>", api_departments.DepartmentView.as_view(), name="api-department"),
    path("tenants", api.TenantsView.as_view(), name="api-tenants"),
    path("tenants/<str:key>/sleep", api_vcluster.SleepView.as_view(), name="api-tenant-sleep"),
    path("tenants/<str:key>/wake", api_vcluster.WakeView.as_view(), name="api-tenant-wake"),
    path("tenants/<str:key>/removal", api_access.RemovalView.as_view(), name="api-removal"),
    path("tenants/<str:key>/archive", api_access.ArchiveView.as_view(), name="api-archive"),
    path("tenants/<str:key>/unarchive", api_access.UnarchiveView.as_view(), name="api-unarchive"),
    path(
        "tenants/<str:key>/approve-deletion",
        api_access.ApproveDeletionView.as_view(),
        name="api-approve-deletion",
    ),
    path(
        "tenants/<str:key>/withdraw-deletion",
        api_access.WithdrawDeletionView.as_view(),
        name="api-withdraw-deletion",
    ),
    path("tenants/<str:key>/kubeconfig", api_access.KubeconfigView.as_view(), name="api-kubeconfig"),
    path(
        "tenants/<str:key>/kubeconfig/credential", api_access.CredentialView.as_view(), name="api-credential"
    ),
    path("namespaces/<str:name>", api_access.NamespaceView.as_view(), name="api-namespace"),
    path("users", api_people.UsersView.as_view(), name="api-users"),
    path("users/<str:username>", api_people.UserView.as_view(), name="api-user"),
    path(
        "users/<str:username>/reset-password",
        api_people.ResetPasswordView.as_view(),
        name="api-reset-password",
    ),
    path("users/<str:username>/disable", api_people.DisableView.as_view(), name="api-disable-user"),
    path("users/<str:username>/enable", api_people.EnableView.as_view(), name="api-enable-user"),
    path("service-accounts", api_people.AccountsView.as_view(), name="api-service-accounts"),
    path("service-accounts/<str:key>", api_people.AccountView.as_view(), name="api-service-account"),
    path(
        "service-accounts/<str:key>/tokens",
        api_people.AccountTokensView.as_view(),
        name="api-service-account-tokens",
    ),
    path(
        "service-accounts/<str:key>/tokens/<uuid:token_id>",
        api_people.AccountTokenView.as_view(),
        name="api-service-account-token",
    ),
    path("tenants/<str:key>/attestation", api_attestation.AttestationView.as_view(), name="api-attestation"),
    path("tenants/<str:key>/attest", api_attestation.AttestView.as_view(), name="api-attest"),
    path("tenants/<str:key>/members", api.MembersView.as_view(), name="api-members"),
    path("tenants/<str:key>/members/<str:username>", api.MemberView.as_view(), name="api-member"),
]
