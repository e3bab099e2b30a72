"""An exporter's Hostname that is no node's name: joined by UUID where that is published, and told."""

from datetime import timedelta

import pytest

from apps.cluster.models import Cluster, MirrorObject
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.models import Device, HardwareFact, TelemetryIssue
from apps.metering.telemetry.rules.sources.reading import DeviceLabels
from apps.metering.telemetry.services import polling, source_health
from apps.metering.telemetry.services.issues import resolve
from tests.controlplane.fleet import FLEETS, nodes, resource_slices
from tests.metering.watched import NOON, send

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
STORY = FLEETS["story"]


@pytest.fixture
def fleet(cluster: Cluster) -> Cluster:
    """The nodes of the story and what their drivers publish."""
    uids = {node.name: node.name for node in STORY}
    for kind, bodies in (("Node", nodes(STORY)), ("ResourceSlice", resource_slices(STORY, uids))):
        for body in bodies:
            name = body["metadata"]["name"]
            MirrorObject.objects.create(
                cluster=cluster, kind=kind, name=name, uid=f"{kind}-{name}", body=body
            )
    return cluster


def published(node: str) -> str:
    """The UUID of a whole GPU of a node."""
    (body,) = resource_slices([each for each in STORY if each.name == node], {node: "uid"})
    return str(body["spec"]["devices"][0]["attributes"]["uuid"]["string"])


def issues() -> dict[str, str]:
    return {issue.kind: issue.message for issue in TelemetryIssue.objects.filter(resolved_at=None)}


@pytest.mark.parametrize("host", ["gpu-02", "gpu-02.acme.internal", "GPU-02.acme.internal"])
def test_a_name_with_a_domain_is_the_node_of_its_first_label(fleet: Cluster, host: str) -> None:
    send(fleet, 1, DeviceLabels("GPU-1", node=host))
    assert Device.objects.get().node == "gpu-02"
    assert issues() == {}


def test_a_node_with_a_domain_is_met_by_its_first_label(fleet: Cluster) -> None:
    MirrorObject.objects.filter(kind="Node", name="gpu-02").update(name="gpu-02.ec2.internal")
    send(fleet, 1, DeviceLabels("GPU-1", node="gpu-02"))
    assert Device.objects.get().node == "gpu-02.ec2.internal"


def test_a_pods_name_is_told_and_its_gpus_are_where_their_uuid_says(fleet: Cluster) -> None:
    gpu = DeviceLabels(published("gpu-02"), node="dcgm-exporter-x7k2p")
    send(fleet, 1, gpu)
    assert Device.objects.get().node == "gpu-02"
    assert 'Hostname "dcgm-exporter-x7k2p" matches no node of north.' in issues()["unknown-host"]
    assert "1 of their GPUs are shown where their UUID says" in issues()["unknown-host"]
    source_health.watch(fleet, now=NOON + timedelta(minutes=6))
    assert "GPUs on gpu-02" in issues()["gap"]


def test_a_gpu_that_nobody_publishes_is_on_no_nodes_page_and_its_silence_is_a_gap_too(fleet: Cluster) -> None:
    for number in range(5):
        send(fleet, number / 10, DeviceLabels(f"GPU-{number}", node=f"exporter-{number}"))
    send(fleet, 1, DeviceLabels("GPU-1", node="exporter-1"))
    assert "1 of their GPUs are on no node's page" in issues()["unknown-host"]
    source_health.watch(fleet, now=NOON + timedelta(minutes=6))
    assert "exporter-" in issues()["gap"]


def test_it_is_over_once_the_name_is_a_nodes(fleet: Cluster) -> None:
    send(fleet, 1, DeviceLabels("GPU-1", node="exporter-1"))
    assert "unknown-host" in issues()
    resolve(fleet, polling.ROUND_KINDS, still=(), now=NOON)
    send(fleet, 2, DeviceLabels("GPU-1", node="gpu-02"))
    assert issues() == {}
    assert Device.objects.get().node == "gpu-02"


def test_before_any_node_is_known_a_name_is_taken_as_it_is(cluster: Cluster) -> None:
    send(cluster, 1, DeviceLabels("GPU-1", node="exporter-1"))
    assert (Device.objects.get().node, issues()) == ("exporter-1", {})


def test_a_published_gpu_that_nobody_ever_heard_of_is_a_gap(fleet: Cluster) -> None:
    gpu = published("gpu-02")
    facts = {"cluster": fleet, "gpu": gpu, "kind": ChangeKind.PRESENT, "recorded_at": NOON}
    HardwareFact.objects.create(at=NOON, **facts)
    source_health.watch(fleet, now=NOON + timedelta(minutes=9))
    assert issues() == {}
    source_health.watch(fleet, now=NOON + timedelta(minutes=11))
    assert "ever, of 1 GPUs that the driver on gpu-02 publishes" in issues()["gap"]
    send(fleet, 12, DeviceLabels(gpu, node="gpu-02"))
    source_health.watch(fleet, now=NOON + timedelta(minutes=12))
    assert issues() == {}
