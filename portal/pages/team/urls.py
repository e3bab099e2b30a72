"""The addresses of a team: its workloads, use, quota and members."""

from django.urls import path

from portal.pages.team.advice import advice_views
from portal.pages.team.audit import audit_views
from portal.pages.team.members import isolation_views, member_views
from portal.pages.team.opening import opening_views, terminal_views
from portal.pages.team.quota import lending_views, quota_acts, quota_views
from portal.pages.team.services import service_views
from portal.pages.team.usage import allocation_views, bill_views, finding_views, usage_views
from portal.pages.team.workloads import (
    disk_views,
    hours_views,
    secret_views,
    size_views,
    template_views,
    workload_views,
)

_MEMBERS = "t/<slug:tenant>/members/"
_ACCOUNT = f"{_MEMBERS}<uuid:account>/"
_REQUEST = "t/<slug:tenant>/quota/requests/<uuid:quota_request>/"
_WORKLOAD = "t/<slug:tenant>/workloads/<uuid:workload>/"
_SERVICE_TOKEN = f"{_WORKLOAD}service/tokens/<uuid:service_token>/"
_FINDING = "t/<slug:tenant>/findings/<uuid:finding>/"

urlpatterns = [
    path("t/<slug:tenant>/isolation/", isolation_views.isolation, name="isolation"),
    path("t/<slug:tenant>/isolation/sleep/", isolation_views.rest, {"verb": "sleep"}, name="vcluster-sleep"),
    path("t/<slug:tenant>/isolation/wake/", isolation_views.rest, {"verb": "wake"}, name="vcluster-wake"),
    path("t/<slug:tenant>/isolation/check/", isolation_views.check, name="attest"),
    path("t/<slug:tenant>/audit/", audit_views.tenant_page, name="tenant-audit"),
    path(_MEMBERS, member_views.members_page, name="members"),
    path(f"{_MEMBERS}kubeconfig/", member_views.kubeconfig_file, name="kubeconfig"),
    path(f"{_MEMBERS}accounts/", member_views.add_account, name="add-account"),
    path(f"{_MEMBERS}registries/", member_views.set_registry, name="set-registry"),
    path(
        f"{_MEMBERS}registries/<str:registry>/remove/", member_views.remove_registry, name="remove-registry"
    ),
    path(
        f"{_MEMBERS}invitations/<uuid:invitation>/withdraw/",
        member_views.withdraw_invitation,
        name="withdraw-invitation",
    ),
    path(f"{_MEMBERS}remove/<str:username>/", member_views.remove_member, name="remove-member"),
    path(_ACCOUNT, member_views.account_page, name="account"),
    path(f"{_ACCOUNT}delete/", member_views.delete_account, name="delete-account"),
    path(f"{_ACCOUNT}<uuid:token>/revoke/", member_views.revoke_account_token, name="revoke-account-token"),
    path("t/<slug:tenant>/quota/move/", quota_acts.move_page, name="quota-move"),
    path("t/<slug:tenant>/quota/change/<slug:act>/", quota_acts.act_page, name="quota-act"),
    path("t/<slug:tenant>/quota/grants/<uuid:grant>/end/", quota_acts.end_grant, name="grant-end"),
    path("t/<slug:tenant>/quota/quota.csv", quota_views.quota_file, name="quota-file"),
    path(_REQUEST, quota_views.request_page, name="quota-request"),
    path(f"{_REQUEST}withdraw/", quota_views.withdraw, name="quota-withdraw"),
    path("t/<slug:tenant>/", workload_views.tenant_page, name="tenant"),
    path("t/<slug:tenant>/workloads/", workload_views.workloads_page, name="workloads"),
    path("t/<slug:tenant>/workloads/stop/", workload_views.stop_many, name="workloads-stop"),
    path("t/<slug:tenant>/disks/", disk_views.disks_page, name="disks"),
    path("t/<slug:tenant>/disks/<uuid:workload>/reattach/", disk_views.reattach, name="disk-reattach"),
    path("t/<slug:tenant>/disks/<uuid:workload>/delete/", disk_views.delete, name="disk-delete"),
    path("t/<slug:tenant>/new/", workload_views.new_kind, name="new"),
    path("t/<slug:tenant>/advice/", advice_views.advice_page, name="advice"),
    path(
        "t/<slug:tenant>/templates/<slug:template>/",
        template_views.new_from_template,
        name="new-from-template",
    ),
    path(
        "t/<slug:tenant>/templates/<slug:template>/review/",
        template_views.review_template,
        name="review-template",
    ),
    path(
        "t/<slug:tenant>/templates/<slug:template>/defaults/",
        template_views.defaults_page,
        name="template-defaults",
    ),
    path("t/<slug:tenant>/new/<slug:kind>/", workload_views.new_offer, name="new-offer"),
    path("t/<slug:tenant>/new/<slug:kind>/<slug:offer>/", workload_views.new_fields, name="new-fields"),
    path(
        "t/<slug:tenant>/new/<slug:kind>/<slug:offer>/review/", workload_views.new_review, name="new-review"
    ),
    path(f"{_WORKLOAD}logs/", workload_views.logs_page, name="workload-logs"),
    path(f"{_WORKLOAD}logs.txt", workload_views.log_file, name="workload-log-file"),
    path(f"{_WORKLOAD}yaml/", workload_views.yaml_page, name="workload-yaml"),
    path(f"{_WORKLOAD}secrets/", secret_views.secrets_page, name="workload-secrets"),
    path(
        f"{_WORKLOAD}secrets/<str:secret>/remove/", secret_views.remove_secret, name="workload-secret-remove"
    ),
    path(f"{_WORKLOAD}service/", service_views.service_page, name="workload-service"),
    path(f"{_WORKLOAD}service/tokens/", service_views.new_token, name="service-token-new"),
    path(f"{_SERVICE_TOKEN}rotate/", service_views.rotate_token, name="service-token-rotate"),
    path(f"{_SERVICE_TOKEN}revoke/", service_views.revoke_token, name="service-token-revoke"),
    path(f"{_WORKLOAD}stop/", workload_views.stop_page, name="workload-stop"),
    path(f"{_WORKLOAD}delete/", workload_views.delete_page, name="workload-delete"),
    path(f"{_WORKLOAD}size/", size_views.size_page, name="workload-size"),
    path(f"{_WORKLOAD}size/review/", size_views.size_review, name="workload-size-review"),
    path(f"{_WORKLOAD}hours/", hours_views.hours_page, name="workload-hours"),
    path(f"{_WORKLOAD}resume/", workload_views.resume, name="workload-resume"),
    path(f"{_WORKLOAD}duplicate/", workload_views.duplicate, name="workload-duplicate"),
    path(f"{_WORKLOAD}rerun-failed/", workload_views.rerun_failed, name="workload-rerun-failed"),
    path(f"{_WORKLOAD}extend/", workload_views.extend, name="workload-extend"),
    path(f"{_WORKLOAD}open/", opening_views.open_workload, name="workload-open"),
    path(f"{_WORKLOAD}terminal/", terminal_views.terminal_page, name="workload-terminal"),
    path(f"{_WORKLOAD}share/", workload_views.share, name="workload-share"),
    path("open/<uuid:workload>/", opening_views.opening_page, name="opening"),
    path(f"{_WORKLOAD}move/", workload_views.move, name="workload-move"),
    path(f"{_WORKLOAD}shrink/", size_views.shrink, name="workload-shrink"),
    path("t/<slug:tenant>/quota/", lending_views.quota_page, name="team-quota"),
    path("t/<slug:tenant>/quota/lent-and-borrowed.csv", lending_views.lending_file, name="lending-file"),
    path(_WORKLOAD, usage_views.workload_page, name="workload"),
    path(f"{_WORKLOAD}allocations/", allocation_views.team_allocations_page, name="workload-allocations"),
    path(f"{_WORKLOAD}use.csv", usage_views.workload_file, name="workload-use-file"),
    path("t/<slug:tenant>/usage/", usage_views.usage_page, name="usage"),
    path("t/<slug:tenant>/usage/<slug:chart>.csv", usage_views.usage_file, name="usage-file"),
    path("t/<slug:tenant>/allocations/", allocation_views.tenant_page, name="tenant-allocations"),
    path("t/<slug:tenant>/allocations.csv", allocation_views.tenant_file, name="tenant-allocations-file"),
    path("t/<slug:tenant>/bill/", bill_views.bill_page, name="bill"),
    path("t/<slug:tenant>/bill/close/", bill_views.close_month, name="bill-close"),
    path("t/<slug:tenant>/bill/<slug:file>.csv", bill_views.bill_file, name="bill-file"),
    path("t/<slug:tenant>/findings/", finding_views.findings_page, name="findings"),
    path("t/<slug:tenant>/findings/findings.csv", finding_views.findings_file, name="findings-file"),
    path(_FINDING, finding_views.finding_page, name="finding"),
    path(f"{_FINDING}use.csv", finding_views.use_file, name="finding-use-file"),
    path(f"{_FINDING}<slug:answer>/", finding_views.answer_page, name="finding-act"),
    path("t/<slug:tenant>/idle-policy/", finding_views.policy_page, name="idle-policy"),
]
