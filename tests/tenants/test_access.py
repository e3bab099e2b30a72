"""A member's kubeconfig and credential over REST, against the sandbox's own token issuer."""

import base64
from datetime import datetime, timedelta

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.audit.models import AuditEvent
from apps.tenants.lifecycle.services import deletion, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.live.services import cluster_reads
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def ready(cast: Cast, access: InProcess, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setattr(cluster_reads, "open_gateway", lambda _: access)
    reconcile_tenant(cast.vision.pk, gateway=access)
    access.mirror(cast.vision.cluster)
    return access


def test_the_credential_is_the_members_own_account(cast: Cast, ready: InProcess) -> None:
    answer = Rest(cast.rosa).send("POST", "/tenants/vision/kubeconfig/credential")
    body = answer.json()
    assert (answer.status_code, body["kind"]) == (200, "ExecCredential")
    assert body["apiVersion"] == "client.authentication.k8s.io/v1"
    user = ready.tokens.user(body["status"]["token"])
    assert user is not None
    assert user.name.startswith("system:serviceaccount:allotment-access:member-")


def test_the_kubeconfig_holds_no_secret_and_names_plugin_portal_and_authority(
    cast: Cast, ready: InProcess
) -> None:
    document = yaml.safe_load(Rest(cast.rosa).get("/tenants/vision/kubeconfig").json()["kubeconfig"])
    (user,), (cluster,) = document["users"], document["clusters"]
    assert user["user"]["exec"]["command"] == "allotment-credential"
    assert user["user"]["exec"]["args"][1] == "vision"
    assert set(user["user"]) == {"exec"}
    assert cluster["cluster"]["server"] == "https://in-process.example"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"a certificate"
    assert document["contexts"][0]["context"]["namespace"] == cast.vision.object_name


def test_a_kubeconfig_with_a_token_is_audited_and_bounded(cast: Cast, ready: InProcess) -> None:
    rosa = Rest(cast.rosa)
    made = rosa.send("POST", "/tenants/vision/kubeconfig", {"expires_in_seconds": 7200})
    assert made.status_code == 201
    assert yaml.safe_load(made.json()["kubeconfig"])["users"][0]["user"]["token"]
    assert AuditEvent.objects.filter(action="kubeconfig.issue", actor="researcher").count() == 1
    for seconds in (599, 86401):
        refused = rosa.send("POST", "/tenants/vision/kubeconfig", {"expires_in_seconds": seconds})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "out_of_range")


def test_a_kubeconfig_does_not_outlive_the_token_that_asked_for_it(cast: Cast, ready: InProcess) -> None:
    rosa, ends = Rest(cast.rosa), timezone.now() + timedelta(hours=1)
    ApiToken.objects.filter(user=cast.rosa).update(expires_at=ends)
    made = rosa.send("POST", "/tenants/vision/kubeconfig", {"expires_in_seconds": 7200})
    assert datetime.fromisoformat(made.json()["expires_at"]) <= ends
    # Kubernetes gives no less than ten minutes.
    ApiToken.objects.filter(user=cast.rosa).update(expires_at=timezone.now() + timedelta(minutes=2))
    short = rosa.send("POST", "/tenants/vision/kubeconfig", {"expires_in_seconds": 7200})
    latest = timezone.now() + timedelta(minutes=10)
    assert datetime.fromisoformat(short.json()["expires_at"]) <= latest


def test_only_members_have_an_account(cast: Cast, ready: InProcess) -> None:
    refused = Rest(cast.petra).send("POST", "/tenants/vision/kubeconfig/credential")
    assert (refused.status_code, refused.json()["hint"]) == (
        403,
        "A lead of the tenant can make you a member.",
    )
    assert Rest(cast.otto).send("POST", "/tenants/vision/kubeconfig/credential").status_code == 404
    reader = Rest(cast.rosa, scopes=("workloads:read",))
    assert reader.send("POST", "/tenants/vision/kubeconfig/credential").status_code == 403


def test_a_token_ends_with_the_account_and_no_new_one_is_given(cast: Cast, ready: InProcess) -> None:
    rosa = Rest(cast.rosa)
    token = rosa.send("POST", "/tenants/vision/kubeconfig/credential").json()["status"]["token"]
    tenancy.remove_member(actor=as_actor(cast.leon), tenant=cast.vision, username="researcher", now=NOW)
    reconcile_tenant(cast.vision.pk, gateway=ready)
    assert ready.tokens.user(token) is None
    assert rosa.send("POST", "/tenants/vision/kubeconfig/credential").status_code == 404


def test_an_archived_tenant_gives_no_credential(cast: Cast, ready: InProcess) -> None:
    deletion.archive_tenant(actor=as_actor(cast.petra), tenant=cast.vision, reason="", now=NOW)
    reconcile_tenant(cast.vision.pk, gateway=ready)
    ready.mirror(cast.vision.cluster)
    refused = Rest(cast.rosa).send("POST", "/tenants/vision/kubeconfig/credential")
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_phase")


def test_the_page_offers_the_file(cast: Cast, ready: InProcess) -> None:
    browser = Client()
    browser.force_login(cast.rosa)
    assert "Download the kubeconfig" in browser.get("/t/vision/members/").content.decode()
    answer = browser.get("/t/vision/members/kubeconfig/")
    assert answer["Content-Disposition"] == 'attachment; filename="kubeconfig-vision.yaml"'
    assert yaml.safe_load(answer.content)["kind"] == "Config"
