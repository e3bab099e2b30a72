"""Facts of hardware: appended where the mirror says something new, and never otherwise."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from apps.cluster.mirror.rules.plugin_resources import PRODUCT
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import LABEL_TENANT, owner_labels
from apps.metering.allocations.services.collect import collect
from apps.metering.ledger.rules import segments
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, HardwareFact, TelemetryIssue
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.books import AT, BUCKET, HOUR, MINUTE
from tests.metering.hardware import CUT, WHOLE, device, gpus, node, tell
from tests.workloads import bodies

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def row(cast: Cast) -> Workload:
    """A notebook; its cluster has a node with one whole GPU."""
    found = make_workload(cast.vision, cast.rosa, cast.offer)
    tell(found, node(), WHOLE)
    return found


def holds(row: Workload, *devices: str) -> None:
    pod = bodies.ready_pod()
    pod["metadata"]["labels"] = owner_labels(owner="workload", uid=row.pk)
    tell(row, pod, bodies.claim(*devices))


def appended() -> list[tuple[str, str, Any]]:
    rows = HardwareFact.objects.order_by("pk")
    return [(row.kind, row.gpu, row.at) for row in rows]


def test_a_gpu_is_present_from_the_first_look_on_and_told_once(row: Workload) -> None:
    for minutes in range(3):
        collect(row.cluster, now=AT + minutes * MINUTE)
    assert appended() == [("present", "GPU-a", AT), ("layout", "GPU-a", AT)]
    assert HardwareFact.objects.get(kind="layout").value == {"instances": {"gpu-01/gpu-0": 1}}
    assert HardwareFact.objects.get(kind="present").value == {
        "node": "gpu-01", "model": "NVIDIA H100 80GB HBM3", "denominator": 1
    }  # fmt: skip


def test_a_gpu_that_is_held_was_there_when_its_holder_began(row: Workload) -> None:
    holds(row, "gpu-01/gpu-0")
    collect(row.cluster, now=AT + 20 * MINUTE)
    assert {at for _, _, at in appended()} == {AT}
    rollup.roll(row.cluster, now=AT + 20 * MINUTE + BUCKET)
    assert set(Bucket.objects.values_list("account", flat=True)) == {"tenant"}


@pytest.mark.parametrize("cut_before", [False, True], ids=["new", "cut anew"])
def test_a_holder_seen_after_its_gpu_held_it_from_its_start(row: Workload, *, cut_before: bool) -> None:
    """A start is the scheduler's word, in whole seconds; a GPU is there when it is seen."""
    seen = AT + timedelta(seconds=0.5)
    if cut_before:
        collect(row.cluster, now=AT - HOUR)
        tell(row, CUT)
    name = "gpu-01/gpu-0-mig-1" if cut_before else "gpu-01/gpu-0"
    collect(row.cluster, now=seen)
    holds(row, name)
    collect(row.cluster, now=AT + timedelta(seconds=15))
    collect(row.cluster, now=AT + timedelta(seconds=30))
    assert [at for kind, _, at in appended() if kind == "layout"][-2:] == [seen, AT]
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert verifying.verify(row.cluster).flaws == []


def test_a_recut_is_a_new_layout_in_sevenths(row: Workload) -> None:
    collect(row.cluster, now=AT)
    tell(row, CUT)
    collect(row.cluster, now=AT + HOUR)
    assert appended()[2:] == [("present", "GPU-a", AT + HOUR), ("layout", "GPU-a", AT + HOUR)]
    newest = HardwareFact.objects.filter(kind="layout").latest("pk")
    assert newest.value == {"instances": {"gpu-01/gpu-0-mig-1": 3, "gpu-01/gpu-0-mig-2": 3}}
    holds(row, "gpu-01/gpu-0-mig-1")
    collect(row.cluster, now=AT + 2 * HOUR)
    assert (Allocation.objects.get().gpu, Allocation.objects.get().device_uuid) == ("GPU-a", "MIG-1")


@pytest.mark.parametrize(
    ("change", "on", "off"),
    [
        ({"cordoned": True}, "cordoned", "uncordoned"),
        ({"ready": False}, "unhealthy", "healthy"),
        ({LABEL_TENANT: "vision"}, "reserved", "unreserved"),
    ],
)
def test_what_befalls_a_node_befalls_its_gpus_and_passes(
    row: Workload, change: dict[str, Any], on: str, off: str
) -> None:
    collect(row.cluster, now=AT)
    tell(row, node(**change))
    collect(row.cluster, now=AT + MINUTE)
    collect(row.cluster, now=AT + 2 * MINUTE)
    tell(row, node())
    collect(row.cluster, now=AT + 3 * MINUTE)
    assert appended()[2:] == [(on, "GPU-a", AT + MINUTE), (off, "GPU-a", AT + 3 * MINUTE)]


def test_a_gpu_that_vanishes_while_held_is_unhealthy_until_nobody_holds_it(row: Workload) -> None:
    holds(row, "gpu-01/gpu-0")
    collect(row.cluster, now=AT)
    MirrorObject.objects.filter(kind="ResourceSlice").update(gone_at=AT + MINUTE)
    collect(row.cluster, now=AT + MINUTE)
    assert appended()[2:] == [("unhealthy", "GPU-a", AT + MINUTE)]
    MirrorObject.objects.filter(kind__in=["Pod", "ResourceClaim"]).update(gone_at=AT + 5 * MINUTE)
    collect(row.cluster, now=AT + 6 * MINUTE)
    assert appended()[3:] == [("gone", "GPU-a", AT + 6 * MINUTE)]


def test_what_is_missing_of_a_pool_that_is_not_whole_is_no_news(row: Workload) -> None:
    """RULE: the old view stands until the driver has published all of the pool; the operator reads why."""
    tell(row, gpus(device("gpu-0", "GPU-a"), device("gpu-1", "GPU-b")))
    collect(row.cluster, now=AT)
    known = appended()
    half = gpus(device("gpu-0", "GPU-a"), generation=2)
    half["spec"]["pool"]["resourceSliceCount"] = 2
    tell(row, half)
    collect(row.cluster, now=AT + MINUTE)
    assert appended() == known
    assert TelemetryIssue.objects.get(resolved_at=None).kind == "pool-partial"
    tell(row, gpus(device("gpu-0", "GPU-a"), generation=2))
    collect(row.cluster, now=AT + 2 * MINUTE)
    assert appended()[len(known) :] == [("gone", "GPU-b", AT + 2 * MINUTE)]
    assert not TelemetryIssue.objects.filter(resolved_at=None).exists()


def test_claims_of_others_are_unattributed_the_tenants_or_reserved(row: Workload, cast: Cast) -> None:
    claim = bodies.claim("gpu-01/gpu-0")
    claim["metadata"]["ownerReferences"] = []
    claim["status"]["reservedFor"] = []
    tell(row, claim)
    collect(row.cluster, now=AT)
    known = HardwareFact.objects.get(kind="claims").value["claims"]
    assert known == {"r1": {"devices": ["gpu-01/gpu-0"], "tenant": "", "reserved": True}}
    claim["metadata"]["namespace"] = cast.vision.object_name
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "kubectl-made", "uid": "p9"}]
    MirrorObject.objects.filter(kind="ResourceClaim").delete()
    tell(row, claim)
    collect(row.cluster, now=AT + 10 * MINUTE)
    rollup.roll(row.cluster, now=AT + 30 * MINUTE)
    told = Bucket.objects.filter(level=300).order_by("starts_at")
    assert list(told.values_list("account", "reason", "tenant", "holder"))[:3] == [
        ("idle", "reserved", None, ""),
        ("idle", "reserved", None, ""),
        ("tenant", "", cast.vision.pk, segments.holder_of("r1", "gpu-01/gpu-0")),
    ]
    newest = HardwareFact.objects.filter(kind="claims").last()
    assert newest is not None
    assert newest.value["claims"]["r1"]["uuids"] == {"gpu-01/gpu-0": "GPU-a"}


def test_the_uuid_of_a_claims_device_holds_as_long_as_the_claim(row: Workload, cast: Cast) -> None:
    claim = bodies.claim("gpu-01/gpu-0-mig-1")
    claim["metadata"] |= {"ownerReferences": [], "namespace": cast.vision.object_name}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "kubectl-made", "uid": "p9"}]
    about = {"parentUUID": "GPU-a", "profile": "3g.40gb"}
    said = []
    for generation, uuid in enumerate(("", "MIG-1", "MIG-other"), 2):
        tell(row, gpus(device("gpu-0-mig-1", uuid, **about), generation=generation), claim)
        collect(row.cluster, now=AT + generation * MINUTE)
        newest = HardwareFact.objects.filter(kind="claims").last()
        said.append(newest.value["claims"]["r1"].get("uuids") if newest else None)
    assert said == [None, {"gpu-01/gpu-0-mig-1": "MIG-1"}, {"gpu-01/gpu-0-mig-1": "MIG-1"}]


def test_shares_of_a_device_plugin_are_gpus_of_so_many_shares(row: Workload) -> None:
    body = node("gpu-02")
    body["metadata"]["labels"] = {"nvidia.com/gpu.replicas": "4", PRODUCT: "Tesla-T4"}
    body["status"]["allocatable"]["nvidia.com/gpu.shared"] = "8"
    tell(row, body)
    collect(row.cluster, now=AT)
    found = HardwareFact.objects.get(gpu="gpu-02/nvidia.com/gpu.shared")
    assert found.value == {
        "node": "gpu-02", "model": "Tesla T4", "denominator": 4, "size": 2, "pool": True
    }  # fmt: skip
    rollup.roll(row.cluster, now=AT + BUCKET + rollup.LATE + timedelta(seconds=1))
    row_ = Bucket.objects.get(level=300, gpu=found.gpu)
    assert (row_.share_us, row_.denominator) == (8 * 300_000_000, 4)


def test_slices_of_a_device_plugin_are_parts_of_gpus_and_other_devices_are_none(row: Workload) -> None:
    """RULE: a vendor's prefix is no kind of thing: only a GPU, a slice or a share of one counts."""
    body = node("gpu-02")
    body["metadata"]["labels"] = {"nvidia.com/gpu.replicas": "1", PRODUCT: "NVIDIA-H100-80GB-HBM3"}
    body["status"]["allocatable"] |= {
        "nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1",
        "nvidia.com/hostdev": "8", "nvidia.com/gpumem": "16280",
    }  # fmt: skip
    others = gpus(device("eth1", ""))
    others["spec"] |= {"driver": "dra.net", "nodeName": "gpu-02", "pool": {"name": "net"}}
    others["metadata"] = {"name": "net", "uid": "net"}
    tell(row, body, others)
    collect(row.cluster, now=AT)
    rollup.roll(row.cluster, now=AT + BUCKET + rollup.LATE + timedelta(seconds=1))
    there = Bucket.objects.filter(level=300, gpu__startswith="gpu-02")
    shares = {b.gpu.partition("/")[2]: Fraction(b.share_us, b.denominator * 300_000_000) for b in there}
    assert shares == {"nvidia.com/mig-1g.10gb": Fraction(4, 7), "nvidia.com/mig-3g.40gb": Fraction(3, 7)}
    assert facts.there(row.cluster, AT, AT + BUCKET) == 2 * 300_000_000
    assert verifying.verify(row.cluster).flaws == []
    assert inventory.other_devices(row.cluster) == {
        "gpu-02": ["dra.net/eth1", "nvidia.com/gpumem: 16280", "nvidia.com/hostdev: 8"]
    }
    assert {each.node for each in inventory.devices(row.cluster)} == {"gpu-01"}
