"""What a tenant's deletion takes along of what people made in its namespace without a label of ours."""

from typing import Any

import pytest
from django.test import Client

from apps.cluster.errors import Rejected
from apps.cluster.objects.kinds import KINDS
from apps.cluster.specs import Body
from apps.tenants.lifecycle.selectors.removal import NEVER_SEEN
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from tests.conftest import Cast
from tests.controlplane import rights
from tests.controlplane.plane import CHART
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest

POD = {"containers": [{"name": "main", "image": "i"}]}
LABELS = {"matchLabels": {"app": "web"}}
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "Deployment": (
        "deployments.apps",
        {"spec": {"selector": LABELS, "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD}}},
    ),
    "ConfigMap": ("configmaps", {"data": {"a": "b"}}),
    "Service": ("services", {"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}),
    "PersistentVolumeClaim": (
        "persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "7Gi"}}}},
    ),
}


@pytest.fixture
def vision(cast: Cast, access: InProcess, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """Its namespace in a cluster that is followed by label, with one thing of each kind made by kubectl."""
    reconcile_tenant(cast.vision.pk, gateway=access)
    tenant = Tenant.objects.select_related("cluster").get(pk=cast.vision.pk)
    kubectl = access.simulated.client(manager="kubectl")
    for kind, (resource, rest) in MADE.items():
        body = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": "theirs"}, **rest}
        kubectl.create(resource, body, tenant.object_name)
    monkeypatch.setattr(cluster_reads, "open_gateway", lambda _: access)
    return tenant


def test_what_kubectl_made_is_listed_by_kind_and_name(cast: Cast, vision: Tenant) -> None:
    told = Rest(cast.petra).get("/tenants/vision/removal").json()
    objects = {each["kind"]: each["names"] for each in told["objects"]}
    for kind in MADE:
        assert f"{vision.object_name}/theirs" in objects[kind]
    assert {"name": "theirs", "size_bytes": 7 * 2**30} in told["volumes"]
    assert told["unseen"] == [NEVER_SEEN]


def test_the_page_shows_the_same(cast: Cast, vision: Tenant) -> None:
    browser = Client()
    browser.force_login(cast.petra)
    page = browser.get("/console/tenants/vision/delete/").content.decode()
    assert page.count(f"{vision.object_name}/theirs") == len(MADE)
    assert "7.0 GiB" in page
    assert NEVER_SEEN in page


def test_what_was_there_before_stays_and_is_not_asked_for(cast: Cast, vision: Tenant) -> None:
    Tenant.objects.filter(pk=vision.pk).update(is_namespace_adopted=True)
    told = Rest(cast.petra).get("/tenants/vision/removal").json()
    names = [name for each in told["objects"] for name in each["names"]]
    assert f"{vision.object_name}/theirs" not in names
    assert told["unseen"] == []


def test_a_cluster_that_does_not_answer_is_said_and_the_rest_shown(cast: Cast, access: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=access)
    access.mirror(cast.vision.cluster)
    told = Rest(cast.petra).get("/tenants/vision/removal").json()
    assert {each["kind"] for each in told["objects"]} >= {"Namespace", "NetworkPolicy"}
    words = "does not answer: what carries no label of ours is not listed now."
    assert told["unseen"] == [NEVER_SEEN, f"{cast.vision.cluster.name} {words}"]


def test_a_kind_that_the_cluster_refuses_is_named(
    cast: Cast, vision: Tenant, access: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation with fewer rights than the chart's."""
    whole = access.list

    def fewer(kind: str, **where: str) -> tuple[list[Body], str]:
        if kind == "Deployment":
            raise Rejected(403, "Forbidden", "deployments.apps is forbidden")
        return whole(kind, **where)

    monkeypatch.setattr(access, "list", fewer)
    told = Rest(cast.petra).get("/tenants/vision/removal").json()
    assert told["unseen"][1:] == [
        "Deployments without our label are not listed: deployments.apps is forbidden"
    ]
    assert "Service" in {each["kind"] for each in told["objects"]}


def test_what_is_said_to_be_unseen_is_what_the_chart_grants_no_right_to() -> None:
    granted = rights.granted(rights.chart_documents(CHART / "rbac.yaml"))
    listed = {right.resource for right in granted if right.verb == "list"}
    assert {KINDS[kind].plural for kind in cluster_reads.WATCHED_BY_LABEL} <= listed
    for kind in ("Secret", "ReplicaSet", "DaemonSet", "CronJob", "Role"):
        assert f"{kind}s" in NEVER_SEEN
        assert f"{kind.lower()}s" not in listed
    assert "ingresses" not in listed
