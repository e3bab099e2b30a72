"""A namespace that was there before becomes a tenant's only by name, after its content was seen, and is given
back.
"""

from typing import Any

import pytest
from django.test import Client

from apps.tenants.lifecycle.selectors.removal import removal_of
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from tests.conftest import Cast
from tests.factories import NOW, begin_deletion
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def old(cast: Cast, access: InProcess, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """A namespace `legacy` with a service of somebody's."""
    monkeypatch.setattr(cluster_reads, "open_gateway", lambda _: access)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "legacy", "labels": {"team": "x"}}}
    access.simulated.client(manager="kubectl").create("namespaces", body)
    _service(access, "web")
    return access


def _service(access: InProcess, name: str) -> None:
    spec = {"ports": [{"port": 80, "protocol": "TCP"}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    access.simulated.client(manager="kubectl").create("services", body, "legacy")


def wish(name: str, seen: str) -> dict[str, Any]:
    return {
        "slug": "legacy-team",
        "spec": {"department": "research"},
        "namespace": {"name": name, "seen": seen},
    }


def test_its_content_is_shown_and_has_to_be_named(cast: Cast, old: InProcess) -> None:
    petra = Rest(cast.petra)
    shown = petra.get("/namespaces/legacy").json()
    assert {"kind": "Service", "names": ["web"]} in shown["objects"]
    blind = petra.send("POST", "/tenants", wish("legacy", "never-looked"))
    assert (blind.status_code, blind.json()["seen"]) == (409, shown["seen"])
    _service(old, "added-meanwhile")
    stale = petra.send("POST", "/tenants", wish("legacy", shown["seen"]))
    assert stale.status_code == 409
    assert not Tenant.objects.filter(slug="legacy-team").exists()
    seen = petra.get("/namespaces/legacy").json()["seen"]
    made = petra.send("POST", "/tenants", wish("legacy", seen))
    assert (made.status_code, made.json()["status"]["namespaces"]) == (201, ["legacy"])


@pytest.mark.parametrize("name", ["kube-system", "default", "kueue-system", "allotment-access"])
def test_a_systems_namespace_is_never_taken(cast: Cast, old: InProcess, name: str) -> None:
    if old.client.get("namespaces", name) is None:
        old.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    seen = Rest(cast.petra).get(f"/namespaces/{name}").json()["seen"]
    refused = Rest(cast.petra).send("POST", "/tenants", wish(name, seen))
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "reserved_name")


def test_another_tenants_namespace_is_never_taken(cast: Cast, old: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=old)
    name = cast.vision.object_name
    seen = Rest(cast.petra).get(f"/namespaces/{name}").json()["seen"]
    assert Rest(cast.petra).send("POST", "/tenants", wish(name, seen)).status_code == 422


def test_only_platform_engineers_look_into_namespaces(cast: Cast, old: InProcess) -> None:
    assert Rest(cast.leon).get("/namespaces/legacy").status_code == 403
    assert Rest(cast.petra).get("/namespaces/nowhere").status_code == 404


def test_it_is_hardened_and_given_back_with_all_that_was_there(cast: Cast, old: InProcess) -> None:
    seen = Rest(cast.petra).get("/namespaces/legacy").json()["seen"]
    Rest(cast.petra).send("POST", "/tenants", wish("legacy", seen))
    tenant = Tenant.objects.select_related("cluster").get(slug="legacy-team")
    reconcile_tenant(tenant.pk, gateway=old)
    old.mirror(tenant.cluster)
    labels = (old.client.get("namespaces", "legacy") or {})["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["team"] == "x"
    going = {each.kind: each.names for each in removal_of(tenant).objects}
    assert "Namespace" not in going
    assert going["Service"] == ("legacy/allotment-notebooks",)
    begin_deletion(tenant, now=NOW)
    for _ in range(3):
        reconcile_tenant(tenant.pk, gateway=old)
        old.mirror(tenant.cluster)
    labels = (old.client.get("namespaces", "legacy") or {})["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": "legacy", "team": "x"}
    assert old.client.get("services", "web", "legacy")
    assert not old.client.list("networkpolicies.networking.k8s.io", "legacy")
    assert Tenant.objects.get(pk=tenant.pk).deleted_at is not None
    seen = Rest(cast.petra).get("/namespaces/legacy").json()["seen"]
    again = Rest(cast.petra).send("POST", "/tenants", wish("legacy", seen) | {"slug": "once-more"})
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    assert "of legacy-team on" in again.json()["detail"]
    assert "slug" not in again.json()["hint"]


def test_the_page_shows_the_content_before_the_second_press(cast: Cast, old: InProcess) -> None:
    browser = Client()
    browser.force_login(cast.petra)
    typed = {"name": "Legacy", "department": "research", "trust_level": "standard", "namespace": "legacy"}
    first = browser.post("/console/tenants/", typed)
    page = first.content.decode()
    assert first.status_code == 409
    assert "Take legacy over" in page
    assert "Not listed is what Allotment has no right to: Secrets, and kinds such as" in page
    assert not Tenant.objects.filter(slug="legacy").exists()
    seen = page.partition('name="seen" value="')[2].partition('"')[0]
    assert browser.post("/console/tenants/", typed | {"seen": seen}).status_code == 303
    assert Tenant.objects.get(slug="legacy").object_name == "legacy"
    assert browser.post("/console/tenants/", typed | {"namespace": "nowhere"}).status_code == 422
