"""Members' accounts inside a virtual cluster: who gets in, as what, until when, and what is said."""

import logging
from typing import NoReturn

import pytest
import yaml
from django.core import serializers
from django.test import Client

from apps.cluster.errors import Rejected
from apps.cluster.objects.conditions import find
from apps.cluster.watching.services.capabilities import Capability
from apps.errors import Conflict
from apps.tenants import virtual_members
from apps.tenants.isolation.manifests import INSIDE_ROLE, render_inside
from apps.tenants.lifecycle.services import deletion, isolation_choice, tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from apps.tenants.people.services import person_access
from apps.tenants.selectors import account_name, accounts_of, tenant_spec
from apps.tenants.specs import ACCESS, ACCESS_NAMESPACE, Role
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest
from tests.tenants.virtual import SECRET_WORDS, Virtual, made, write_key

CREDENTIAL = "/tenants/lab/kubeconfig/credential"


@pytest.fixture
def lab(cast: Cast, access: InProcess, monkeypatch: pytest.MonkeyPatch) -> Virtual:
    virtual = made(cast, access)
    monkeypatch.setattr(virtual_members, "open_keyed", virtual.open)
    monkeypatch.setattr(cluster_reads, "open_keyed", virtual.open)
    monkeypatch.setattr(cluster_reads, "open_gateway", lambda _: access)
    return virtual


@pytest.fixture
def awake(lab: Virtual) -> Virtual:
    write_key(lab)
    lab.says("True")
    lab.bring()
    return lab


def access_of(tenant: Tenant) -> tuple[str, str]:
    fact = find(tenant.conditions, ACCESS)
    return ("", "") if fact is None else (fact["status"], fact["reason"])


def test_a_lead_administers_the_inside_and_a_member_edits_every_namespace_but_that_of_the_accounts(
    cast: Cast, awake: Virtual
) -> None:
    leon, rosa = (account_name(awake.tenant, user.pk) for user in (cast.leon, cast.rosa))
    roles = {
        each["metadata"]["name"]: each["roleRef"]["name"]
        for each in awake.inner.list("ClusterRoleBinding")[0]
    }
    assert {f"{leon}-lead": "cluster-admin", f"{rosa}-member": INSIDE_ROLE}.items() <= roles.items()
    assert awake.accounts("ServiceAccount", ACCESS_NAMESPACE) == sorted([leon, rosa])
    bound = awake.inner.list("RoleBinding")[0]
    spaces = {each["metadata"]["namespace"] for each in bound if each["metadata"]["name"] == f"{rosa}-member"}
    assert "default" in spaces
    assert not {name for name in spaces if name == ACCESS_NAMESPACE or name.startswith("kube-")}
    assert access_of(awake.fresh()) == ("True", "Applied")


def test_no_rule_of_a_members_own_role_reaches_secrets_tokens_or_other_accounts(lab: Virtual) -> None:
    spec = tenant_spec(lab.tenant)
    (role,) = [each for each in render_inside(spec, (), ()) if each["kind"] == "ClusterRole"]
    reached = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert not reached & {"secrets", "serviceaccounts", "serviceaccounts/token", "pods", "*"}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch", "create"}


def test_what_people_take_away_is_for_the_inside_and_what_the_door_takes_for_the_workloads(
    cast: Cast, awake: Virtual
) -> None:
    """RULE: nobody is handed a token of the account beside the control plane."""
    rosa, cluster = as_actor(cast.rosa), awake.tenant.cluster
    enforces = Capability(name="policies", available=True, version=None, message="", missing=[])
    cluster.capabilities = [*cluster.capabilities, enforces]
    cluster.save()
    account = account_name(awake.tenant, cast.rosa.pk)

    def of_the_host(token: str) -> bool:
        user = awake.host.tokens.user(token)
        return user is not None and user.name.endswith(f":{account}")

    with pytest.raises(Conflict, match="not set up in the cluster"):
        cluster_reads.shell_credential(rosa, awake.fresh(), seconds=600)
    turned_on = TenantChange(has_shell=True)
    tenancy.update_tenant(actor=as_actor(cast.petra), tenant=awake.fresh(), change=turned_on, now=NOW)
    awake.bring()
    awake.says("True")
    tenant = awake.bring()

    assert of_the_host(cluster_reads.shell_credential(rosa, tenant, seconds=600)[0])
    assert not of_the_host(cluster_reads.credential(rosa, tenant, seconds=600)[0])
    made, _ = cluster_reads.token_kubeconfig(rosa, tenant, seconds=600)
    assert not of_the_host(made["users"][0]["user"]["token"])

    tenancy.remove_member(actor=as_actor(cast.petra), tenant=tenant, username=cast.rosa.username, now=NOW)
    awake.bring()
    assert account not in {each["metadata"]["name"] for each in awake.host.list("ServiceAccount")[0]}


def test_a_second_look_writes_nothing_inside(awake: Virtual) -> None:
    awake.inner.calls.clear()
    awake.bring()
    assert awake.inner.calls == []


def test_a_namespace_made_inside_is_opened_at_the_next_look_and_one_that_goes_is_left_alone(
    awake: Virtual,
) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}}
    awake.inner.client.create("namespaces", namespace)
    due_at = awake.fresh().due_at
    assert due_at is not None, "it is looked for by itself"
    awake.bring()
    assert len(awake.accounts("RoleBinding", "models")) == 1


def test_a_namespace_that_somebody_labelled_as_ours_is_never_taken_away(awake: Virtual) -> None:
    labels = {"app.kubernetes.io/managed-by": "allotment", "allotment.dev/uid": str(awake.tenant.pk)}
    metadata = {"name": "models", "labels": labels}
    awake.inner.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    awake.bring()
    assert awake.inner.client.get("namespaces", "models")


def test_who_leaves_loses_the_binding_before_the_account(cast: Cast, awake: Virtual) -> None:
    rosa = account_name(awake.tenant, cast.rosa.pk)
    awake.inner.calls.clear()
    tenancy.remove_member(
        actor=as_actor(cast.leon), tenant=awake.tenant, username=cast.rosa.username, now=NOW
    )
    awake.bring()
    deleted = [ref for verb, ref in awake.inner.calls if verb == "delete" and ref.name.startswith(rosa)]
    assert deleted[-1].kind == "ServiceAccount"
    assert {ref.kind for ref in deleted[:-1]} == {"RoleBinding", "ClusterRoleBinding"}


def test_who_becomes_a_lead_gets_another_binding(cast: Cast, awake: Virtual) -> None:
    tenancy.set_member(
        actor=as_actor(cast.leon), tenant=awake.tenant, username=cast.rosa.username, role=Role.LEAD, now=NOW
    )
    awake.bring()
    assert all(name.endswith("-lead") for name in awake.accounts("ClusterRoleBinding"))
    assert awake.accounts("RoleBinding") == []


def test_a_closed_account_and_an_archived_tenant_lose_it_too(cast: Cast, awake: Virtual) -> None:
    person_access.set_active(actor=as_actor(cast.petra), user=cast.rosa, is_active=False, now=NOW)
    awake.bring()
    assert len(awake.accounts("ServiceAccount")) == 1
    deletion.archive_tenant(actor=as_actor(cast.petra), tenant=awake.tenant, reason="", now=NOW)
    awake.bring()
    assert awake.accounts("ServiceAccount") == awake.accounts("ClusterRoleBinding") == []


def test_nobody_is_left_inside_while_it_sleeps_and_it_is_not_asked_again(cast: Cast, awake: Virtual) -> None:
    leon = as_actor(cast.leon)
    isolation_choice.rest(actor=leon, tenant=awake.tenant, asleep=True, now=NOW)
    assert access_of(awake.bring()) == ("False", "Asleep")
    assert awake.accounts("ClusterRoleBinding") == []
    awake.opened.clear()
    awake.bring()
    assert awake.opened == []
    refused = Rest(cast.rosa).send("POST", CREDENTIAL)
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_phase")
    assert "asleep: wake it first" in refused.json()["detail"]

    isolation_choice.rest(actor=leon, tenant=awake.fresh(), asleep=False, now=NOW)
    awake.bring()
    awake.says("True")
    awake.bring()
    assert len(awake.accounts("ServiceAccount")) == 2


def test_a_silent_inside_is_said_and_tried_again_and_nothing_is_lost(cast: Cast, awake: Virtual) -> None:
    awake.inner.silent = True
    tenancy.remove_member(
        actor=as_actor(cast.leon), tenant=awake.tenant, username=cast.rosa.username, now=NOW
    )
    row = awake.bring()
    assert access_of(row) == ("False", "ClusterUnavailable")
    synced = find(row.conditions, "Synced")
    assert synced is not None
    assert "Inside the virtual cluster: The cluster does not answer." in synced["message"]
    assert row.due_at is not None
    assert row.observed_generation < row.generation
    awake.inner.silent = False
    row = awake.bring()
    assert (access_of(row)[0], row.observed_generation) == ("True", row.generation)
    assert len(awake.accounts("ServiceAccount")) == len(accounts_of(row)) == 1


def test_what_the_inside_refuses_is_said_and_the_host_is_brought_all_the_same(
    awake: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lead administers the inside, and may lock us out of it."""

    def refuses(*_: object, **__: object) -> NoReturn:
        raise Rejected(403, "Forbidden", "webhook no says no")

    monkeypatch.setattr(awake.inner, "list", refuses)
    row = awake.bring()
    assert access_of(row) == ("False", "Forbidden")
    ready = find(row.conditions, "Ready")
    assert ready is not None
    assert ready["status"] == "True"


def test_before_it_is_ready_nothing_is_asked_of_it_and_members_are_told(cast: Cast, lab: Virtual) -> None:
    assert lab.opened == []
    lab.says("Unknown", "Progressing", "Running the install.")
    refused = Rest(cast.rosa).send("POST", CREDENTIAL)
    assert refused.status_code == 409
    assert "not ready yet: Running the install." in refused.json()["detail"]
    lab.says("True")
    row = lab.bring()
    assert access_of(row) == ("False", "KeyMissing")
    assert "has not written its key yet" in str(row.conditions)


def test_the_credential_is_the_members_own_account_inside(cast: Cast, awake: Virtual) -> None:
    answer = Rest(cast.rosa).send("POST", CREDENTIAL)
    assert answer.status_code == 200
    user = awake.inner.tokens.user(answer.json()["status"]["token"])
    assert user is not None
    account = account_name(awake.tenant, cast.rosa.pk)
    assert user.name == f"system:serviceaccount:{ACCESS_NAMESPACE}:{account}"
    assert awake.host.tokens.user(answer.json()["status"]["token"]) is None
    assert Rest(cast.petra).send("POST", CREDENTIAL).status_code == 403
    assert Rest(cast.otto).send("POST", CREDENTIAL).status_code == 404


def test_the_key_goes_to_the_address_that_a_platform_engineer_gave(cast: Cast, awake: Virtual) -> None:
    space = awake.tenant.object_name
    assert awake.opened[-1].server == f"https://virtual.{space}.svc:443"
    petra, wish = as_actor(cast.petra), {**awake.fresh().vcluster, "api_host": "lab.example.org:8443"}
    isolation_choice.change_vcluster(actor=petra, tenant=awake.tenant, virtual=wish, now=NOW)
    awake.bring()
    assert awake.opened[-1].server == "https://lab.example.org:8443"
    body = Rest(cast.rosa).get("/tenants/lab").json()
    assert body["status"]["vcluster"]["api_url"] == "https://lab.example.org:8443"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:6443", "2130706433", "0x7f.1", "localhost", "169.254.169.254", "metadata.google.internal"],
)
def test_the_address_is_where_a_cluster_may_be(cast: Cast, awake: Virtual, host: str) -> None:
    """The product connects there with a key of its own."""
    answer = Rest(cast.petra).send(
        "PATCH", "/tenants/lab", {"spec": {"vcluster": {"api_host": host}}}, match="*"
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/spec/vcluster/api_host"


def test_one_that_was_given_before_still_sleeps(cast: Cast, awake: Virtual) -> None:
    awake.tenant.vcluster = {**awake.fresh().vcluster, "api_host": "127.0.0.1"}
    awake.tenant.save(update_fields=["vcluster"])
    assert Rest(cast.leon).send("POST", "/tenants/lab/sleep").status_code == 202


def test_neither_row_nor_log_nor_answer_holds_the_key(
    cast: Cast, awake: Virtual, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        awake.inner.silent = True
        awake.bring()
        answers = [Rest(cast.rosa).send("POST", CREDENTIAL), Rest(cast.rosa).get("/tenants/lab")]
        awake.inner.silent = False
        awake.bring()
        rosa = Rest(cast.rosa)
        answers += [rosa.get("/tenants/lab/kubeconfig"), rosa.send("POST", CREDENTIAL)]
    known = serializers.serialize("json", Tenant.objects.all()) + caplog.text + repr(awake.opened)
    known += "".join(answer.content.decode() for answer in answers)
    assert SECRET_WORDS not in known
    assert awake.opened[0].private_key == SECRET_WORDS.encode()


def test_the_page_hands_out_the_file_and_says_where_it_answers(cast: Cast, awake: Virtual) -> None:
    browser = Client()
    browser.force_login(cast.rosa)
    page = browser.get("/t/lab/members/").content.decode()
    assert "Download the kubeconfig" in page
    assert "answers only inside the cluster" in page
    file = yaml.safe_load(browser.get("/t/lab/members/kubeconfig/").content)
    assert file["contexts"][0]["context"]["namespace"] == "default"

    isolation_choice.rest(actor=as_actor(cast.leon), tenant=awake.tenant, asleep=True, now=NOW)
    page = browser.get("/t/lab/members/").content.decode()
    assert "is asleep: wake it first" in page
    assert "Download the kubeconfig" not in page
