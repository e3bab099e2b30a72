"""The client, converge and the watcher against a real API server, scheduler and Kueue."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.errors import Rejected
from apps.cluster.gateway import client
from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.mirror.selectors import inventory
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, Drift, MirrorObject, WatchPosition
from apps.cluster.objects import names
from apps.cluster.reconciling.rules import plan
from apps.cluster.reconciling.services import converge
from apps.cluster.specs import Manifest, ObjectRef
from apps.cluster.watching.services import capabilities, ingest
from apps.cluster.watching.services.watch import Watcher
from tests import factories
from tests.cluster.reading import Reading, written
from tests.controlplane.fixtures import as_admin
from tests.controlplane.plane import ControlPlane, Outage
from tests.patience import patient, until

pytestmark = pytest.mark.plane
RESOURCE = "allotment.dev/plane-3g"


@pytest.fixture(scope="module", autouse=True)
def config_maps(control_plane: ControlPlane) -> Iterator[None]:
    """The tests bring and remove ConfigMaps, which the product does not: that right is theirs alone."""
    account, name = "--serviceaccount=allotment-system:allotment-controller", "tests-config-maps"
    control_plane.kubectl("create", "clusterrole", name, "--verb=get,delete", "--resource=configmaps")
    control_plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    yield
    control_plane.kubectl("delete", "clusterrolebinding,clusterrole", name)


@pytest.fixture
def plane_cluster(control_plane: ControlPlane, db: None) -> Cluster:
    return Cluster.objects.create(slug="plane", name="Plane", kubeconfig_path=str(control_plane.kubeconfig))


@pytest.fixture
def gateway(plane_cluster: Cluster) -> Gateway:
    return open_gateway(plane_cluster)


@pytest.fixture
def watcher(plane_cluster: Cluster) -> Iterator[Watcher]:
    """Its threads run; the writer is this thread, which alone sees the test's transaction."""
    running = Watcher(plane_cluster, partial(open_gateway, plane_cluster))
    running.start()
    yield running
    running.shut_down()


class Mine:
    """A row with objects of its own on the plane."""

    def __init__(self, cluster: Cluster, gateway: Gateway) -> None:
        self.id = str(uuid4())
        self.namespace = f"own-{self.id[:8]}"
        self._cluster, self._gateway = cluster, gateway

    def manifest(
        self, api_version: str, kind: str, name: str, *, inside: bool = True, **rest: Any
    ) -> Manifest:
        labels = names.owner_labels(owner="workload", uid=self.id, tenant="vision") | rest.pop("labels", {})
        metadata = {"name": name, "labels": labels} | ({"namespace": self.namespace} if inside else {})
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}

    def home(self) -> Manifest:
        labels = {names.LABEL_MANAGED: "true"}
        return self.manifest("v1", "Namespace", self.namespace, inside=False, labels=labels)

    def config(self, value: str = "1") -> Manifest:
        return self.manifest("v1", "ConfigMap", "settings", data={"a": value})

    def plan(self, *wanted: Manifest) -> plan.Plan:
        return plan.diff(wanted, mirror_table.observed_for(self.id), owner_id=self.id)

    def bring(self, *wanted: Manifest) -> converge.Outcome:
        return converge.run(self._gateway, self._cluster, self.plan(*wanted), now=timezone.now())


@pytest.fixture
def mine(plane_cluster: Cluster, gateway: Gateway) -> Iterator[Mine]:
    own = Mine(plane_cluster, gateway)
    yield own
    own.bring()


def test_a_second_reconcile_makes_no_call_and_the_watch_agrees(mine: Mine, watcher: Watcher) -> None:
    written(watcher, lambda: WatchPosition.objects.filter(kind="ConfigMap").exists())

    outcome = mine.bring(mine.home(), mine.config())

    assert (outcome.applied, outcome.failures) == (2, ())
    assert mine.plan(mine.home(), mine.config()).is_empty
    before = WatchPosition.objects.get(kind="ConfigMap").resource_version
    written(watcher, lambda: WatchPosition.objects.get(kind="ConfigMap").resource_version != before)
    assert mine.plan(mine.home(), mine.config()).is_empty


def test_what_somebody_changes_with_kubectl_is_noticed_and_put_right(
    mine: Mine, watcher: Watcher, gateway: Gateway, control_plane: ControlPlane
) -> None:
    mine.bring(mine.home(), mine.config())
    written(watcher, lambda: WatchPosition.objects.filter(kind="ConfigMap").exists())

    control_plane.kubectl(
        "-n", mine.namespace, "patch", "cm", "settings", "--type=merge", "-p", '{"data":{"a":"x"}}'
    )
    written(watcher, lambda: not mine.plan(mine.home(), mine.config()).is_empty)

    assert [apply.why for apply in mine.plan(mine.home(), mine.config()).levels[0]] == [plan.Why.DRIFTED]
    assert mine.bring(mine.home(), mine.config()).is_complete
    live = gateway.get(ObjectRef("ConfigMap", mine.namespace, "settings"))
    assert live is not None
    assert live["data"] == {"a": "1"}


def test_the_page_of_drift_names_the_manager_that_kubectl_wrote_under(
    mine: Mine, watcher: Watcher, control_plane: ControlPlane, client: Client
) -> None:
    wanted = mine.home(), mine.config()
    mine.bring(*wanted)
    written(watcher, lambda: WatchPosition.objects.filter(kind="ConfigMap").exists())
    change = ("patch", "cm", "settings", "--type=merge", "-p", '{"data":{"a":"x"}}')
    control_plane.kubectl("-n", mine.namespace, *change, "--field-manager=kubectl-edit")
    written(watcher, lambda: not mine.plan(*wanted).is_empty)
    assert mine.bring(*wanted).is_complete

    row = Drift.objects.get(kind="ConfigMap", namespace=mine.namespace)
    (field,) = row.fields
    assert (row.how, row.healed_at is not None) == ("changed", True)
    assert (field["path"], field["manager"], field["operation"]) == ("data.a", "kubectl-edit", "Update")
    assert field["at"]
    client.force_login(factories.make_user("petra", platform_role="platform"))
    for path in ("/console/drift/", f"/console/drift/{row.pk}/"):
        shown = client.get(path).content.decode()
        assert "data.a" in shown
        assert "kubectl-edit" in shown


def test_a_label_of_somebody_else_is_left_alone(
    mine: Mine, watcher: Watcher, control_plane: ControlPlane
) -> None:
    mine.bring(mine.home(), mine.config())
    written(watcher, lambda: WatchPosition.objects.filter(kind="ConfigMap").exists())

    control_plane.kubectl("-n", mine.namespace, "label", "cm", "settings", "team=theirs")
    row = MirrorObject.objects.filter(kind="ConfigMap", owner_id=mine.id)
    written(watcher, lambda: row.get().body["metadata"]["labels"].get("team"))

    assert mine.plan(mine.home(), mine.config()).is_empty


def test_a_list_in_small_pages_loses_nothing_and_buries_at_its_end(
    mine: Mine, plane_cluster: Cluster, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own continue tokens, while the list changes between two pages."""
    monkeypatch.setattr(client, "_PAGE", 2)
    kept = [mine.manifest("v1", "ConfigMap", f"page-{number}", data={"a": "1"}) for number in range(5)]
    mine.bring(mine.home(), *kept)
    reading = Reading(plane_cluster, gateway, "ConfigMap")
    first = reading.page()
    assert (len(first.items), first.is_last) == (2, False)
    gone = ObjectRef("ConfigMap", mine.namespace, "page-4")
    live = gateway.get(gone)
    assert live is not None
    assert gateway.delete(gone, uid=live["metadata"]["uid"])

    reading.write(first)
    told = reading.rest()
    reading.end()

    assert max(map(len, told)) == 2
    assert {ref.name for ref in mirror_table.observed_for(mine.id) if ref.kind == "ConfigMap"} == {
        f"page-{number}" for number in range(5)
    }, "one snapshot to its end; the watch that goes on from it tells of the deletion"
    assert WatchPosition.objects.get(kind="ConfigMap").resource_version == first.version
    again = Reading(plane_cluster, gateway, "ConfigMap")
    again.rest()
    again.end()
    assert gone not in mirror_table.observed_for(mine.id)


def test_what_is_no_longer_wanted_goes_and_the_mirror_sees_it_go(mine: Mine, watcher: Watcher) -> None:
    mine.bring(mine.home(), mine.config())
    written(watcher, lambda: WatchPosition.objects.filter(kind="ConfigMap").exists())

    assert mine.bring(mine.home()).deleted == 1
    written(
        watcher,
        lambda: ObjectRef("ConfigMap", mine.namespace, "settings") not in mirror_table.observed_for(mine.id),
    )


def test_a_delete_with_another_uid_deletes_nothing(mine: Mine, gateway: Gateway) -> None:
    mine.bring(mine.home(), mine.config())
    ref = ObjectRef("ConfigMap", mine.namespace, "settings")

    assert gateway.delete(ref, uid=str(uuid4())) is False
    assert gateway.get(ref) is not None


def test_an_unknown_field_is_refused_by_name(mine: Mine) -> None:
    outcome = mine.bring(mine.home() | {"spec": {"colour": "red"}})

    (failure,) = outcome.failures
    assert ".spec.colour: field not declared in schema" in failure.message


def test_what_our_role_does_not_allow_is_a_refusal(gateway: Gateway) -> None:
    with pytest.raises(Rejected) as refused:
        gateway.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own-node"}})

    assert refused.value.reason == "Forbidden"


def test_the_cluster_says_what_it_can_do(gateway: Gateway, control_plane: ControlPlane) -> None:
    judged = capabilities.judge(capabilities.facts(gateway), has_gateway=True)
    found = {entry["name"]: entry["available"] for entry in judged}

    assert found == {
        "kubernetes": True, "dra": True, "extended-resources": True, "kueue": True,
        "priority-classes": True, "namespaces": True, "storage-class": True, "visibility": True,
        "gpu-driver": True, "device-plugin": False, "policies": True, "image-credentials": False,
        "flux": False, "jobset": False, "deployments": True, "routes": True,
    }  # fmt: skip
    assert as_admin(control_plane).get(ObjectRef("DeviceClass", "", "allotment-probe")) is None


def test_the_fleet_is_read_from_the_mirror(watcher: Watcher, plane_cluster: Cluster) -> None:
    written(watcher, lambda: WatchPosition.objects.filter(kind__in=["Node", "ResourceSlice"]).count() == 2)

    devices = inventory.devices(plane_cluster)

    assert {node.name for node in inventory.nodes(plane_cluster) if node.schedulable} == {
        d.node for d in devices
    }
    assert {(d.profile, d.share_numerator, d.share_denominator) for d in devices if d.type == "mig"} >= {
        ("1g.10gb", 1, 7)
    }


def queue_objects(mine: Mine) -> list[Manifest]:
    """A flavor, a device class for the 3g slice, and a queue with one of it; Kueue's side of a tenant."""
    cel = (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' "
        "&& device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"
    )
    quotas: list[dict[str, Any]] = [
        {"name": "cpu", "nominalQuota": 8},
        {"name": "memory", "nominalQuota": "8Gi"},
        {"name": RESOURCE, "nominalQuota": 1},
    ]
    covered = [quota["name"] for quota in quotas]
    groups = [{"coveredResources": covered, "flavors": [{"name": mine.namespace, "resources": quotas}]}]
    kueue = partial(mine.manifest, "kueue.x-k8s.io/v1beta2")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": mine.namespace}}
    spec = {"selectors": [{"cel": {"expression": cel}}], "extendedResourceName": RESOURCE}
    return [
        mine.home(),
        mine.manifest("resource.k8s.io/v1", "DeviceClass", mine.namespace, inside=False, spec=spec),
        kueue("ResourceFlavor", mine.namespace, inside=False, spec={}),
        kueue(
            "ClusterQueue",
            mine.namespace,
            inside=False,
            spec={"namespaceSelector": selector, "resourceGroups": groups},
        ),
        kueue("LocalQueue", "gpu", spec={"clusterQueue": mine.namespace}),
    ]


def job(mine: Mine) -> Manifest:
    asked = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {RESOURCE: 1}}
    container = {"name": "c", "image": "busybox", "imagePullPolicy": "Always", "resources": asked}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    spec = {
        "template": {
            "metadata": {"annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "4s"}},
            "spec": pod,
        }
    }
    return mine.manifest("batch/v1", "Job", "train", labels={names.LABEL_QUEUE: "gpu"}, spec=spec)


def test_the_queue_entry_pod_and_claim_of_a_job_are_found_as_its_own(
    mine: Mine, watcher: Watcher, plane_cluster: Cluster
) -> None:
    outcome = mine.bring(*queue_objects(mine), job(mine))
    assert outcome.failures == ()

    def kinds() -> set[str]:
        return {ref.kind for ref in mirror_table.observed_for(mine.id)}

    written(watcher, lambda: {"Job", "Workload", "Pod", "ResourceClaim"} <= kinds(), 40)
    written(watcher, lambda: inventory.held_devices(plane_cluster), 20)

    ((holder,),) = inventory.held_devices(plane_cluster).values()
    assert holder.namespace == mine.namespace
    assert mine.plan(*queue_objects(mine), job(mine)).is_empty, "Kueue's own fields are no drift"
    written(watcher, lambda: mirror_table.events_for(mine.id), 20)  # each kind has a watch of its own


@pytest.mark.exhaustive
def test_a_hung_api_server_is_called_silent_and_forgiven(
    plane_cluster: Cluster, watcher: Watcher, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "SILENCE", timedelta(seconds=6))
    written(watcher, lambda: Cluster.objects.get().phase == Cluster.Phase.READY)

    control_plane.stop_component("kube-apiserver", Outage.PAUSE)
    try:
        written(watcher, lambda: Cluster.objects.get().phase == Cluster.Phase.SILENT, 15)
    finally:
        control_plane.start_component("kube-apiserver")

    assert Cluster.objects.get().message.startswith("No answer since ")
    written(watcher, lambda: Cluster.objects.get().phase == Cluster.Phase.READY, 25)


@pytest.mark.exhaustive
@pytest.mark.timeout(90)
def test_the_watcher_process_keeps_a_mirror_and_ends_within_five_seconds(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    environment = os.environ | {"ALLOTMENT_HOME": str(tmp_path), "ALLOTMENT_DATABASE_URL": ""}
    manage = partial(subprocess.run, env=environment, check=True, capture_output=True)
    manage([sys.executable, "manage.py", "migrate", "--skip-checks"])
    manage(
        [
            sys.executable,
            "manage.py",
            "register_cluster",
            "--slug=p",
            f"--kubeconfig={control_plane.kubeconfig}",
        ]
    )
    process = subprocess.Popen([sys.executable, "manage.py", "watch_cluster"], env=environment)

    def rows() -> int:
        import sqlite3

        with sqlite3.connect(tmp_path / "allotment.sqlite3", timeout=10) as database:
            return int(
                database.execute("select count(*) from cluster_mirrorobject where kind='Node'").fetchone()[0]
            )

    until(rows, "the first rows", 30)
    kept, asked = rows(), time.monotonic()
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=patient(10)) == 0
    assert time.monotonic() - asked < patient(5)
    assert kept == 3
