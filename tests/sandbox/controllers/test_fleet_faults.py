"""What happens to pods and telemetry when the fleet breaks, and the exporter's text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sandbox.controllers.kueue.names import WORKLOADS
from sandbox.fleet import dcgm, faults
from sandbox.fleet.faults import Fault, FaultKind
from sandbox.fleet.spec import HostLabel, load_fleet
from sandbox.fleet.telemetry import Telemetry
from tests.sandbox.controllers.bodies import NAMESPACE, SLICE, container, job, stateful
from tests.sandbox.controllers.conftest import World
from tests.sandbox.controllers.pods import plain_pod

LINE = re.compile(
    r'^(?P<name>DCGM_FI_\w+|ALLOTMENT_GPU_PROCESSES)\{(?P<labels>(?:\w+="[^"]*",?)+)\} (?P<value>-?[\d.]+)$'
)


def telemetry(world: World) -> Telemetry:
    return Telemetry(world.client, load_fleet("laptop"), world.cluster.ids.seed)


def rows(world: World, node: str, name: str) -> list[dict[str, str]]:
    reader = telemetry(world)
    text = dcgm.exposition(reader.fleet, reader.boards(node, world.cluster.clock.now()))
    found = []
    for line in text.splitlines():
        match = LINE.match(line)
        assert match or line.startswith("# "), line
        if match and match["name"] == name:
            found.append({**dict(re.findall(r'(\w+)="([^"]*)"', match["labels"])), "value": match["value"]})
    return found


def test_an_xid_taints_the_devices_of_its_gpu_until_the_node_is_back(world: World) -> None:
    def tainted() -> dict[str, list[tuple[str, str]]]:
        slices = world.client.list("resourceslices.resource.k8s.io")
        devices = [
            d for found in slices if found["spec"]["nodeName"] == "h100-0" for d in found["spec"]["devices"]
        ]
        return {
            d["name"]: [(t["value"], t["effect"]) for t in d["taints"]] for d in devices if d.get("taints")
        }

    now = world.cluster.clock.now()
    for code, effect in ((45, "None"), (48, "NoSchedule")):
        faults.inject(world.client, Fault(FaultKind.XID_TAINT, "h100-0", gpu=1, code=code), now)
        assert {name[:5] for name in tainted()} == {"gpu-1"}
        assert set(map(tuple, tainted().values())) == {((str(code), effect),)}
    faults.inject(world.client, Fault(FaultKind.NODE_BACK, "h100-0"), now)
    assert tainted() == {}


def test_a_pool_may_say_that_more_of_it_is_to_come_until_the_node_is_back(world: World) -> None:
    def counts() -> list[int]:
        slices = world.client.list("resourceslices.resource.k8s.io")
        return [s["spec"]["pool"]["resourceSliceCount"] for s in slices if s["spec"]["nodeName"] == "h100-0"]

    now = world.cluster.clock.now()
    for kind, count in ((FaultKind.POOL_PARTIAL, 2), (FaultKind.POOL_PARTIAL, 2), (FaultKind.NODE_BACK, 1)):
        faults.inject(world.client, Fault(kind, "h100-0"), now)
        assert counts() == [count]


@pytest.mark.parametrize(
    ("host", "label"),
    [("node", "h100-0"), ("fqdn", "h100-0.sandbox.internal"), ("pod", "nvidia-dcgm-exporter-")],
)
def test_the_exporter_may_call_its_node_by_another_name(world: World, host: str, label: str) -> None:
    reader = telemetry(world)
    fleet = replace(reader.fleet, host_label=HostLabel(host))
    text = dcgm.exposition(fleet, reader.boards("h100-0", world.cluster.clock.now()))
    hosts = set(re.findall(r'Hostname="([^"]*)"', text))
    assert len(hosts) == 1
    assert next(iter(hosts)).startswith(label)
    assert (hosts == {"h100-0"}) is (host == "node")


def test_the_exporter_names_device_instance_pod_and_claim(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits={SLICE: 1}))
    queued.wait(10)
    active = rows(queued, "h100-0", "DCGM_FI_PROF_SM_ACTIVE")
    assert len(active) == 6
    mine = next(row for row in active if row.get("pod") == "nb-0")
    assert (mine["GPU_I_PROFILE"], mine["namespace"], mine["container"]) == ("3g.40gb", NAMESPACE, "c")
    assert (
        mine["dra_claim_name"]
        == queued.pod("nb-0")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    )
    assert mine["dra_device_name"] == "gpu-1-mig-3g40gb-9-4"
    assert {row["UUID"] for row in active if "GPU_I_ID" in row} == {mine["UUID"]}


def test_gpu_utilisation_is_left_out_on_mig_instances(queued: World) -> None:
    assert [row["gpu"] for row in rows(queued, "h100-0", "DCGM_FI_DEV_GPU_UTIL")] == ["0"]


def test_memory_used_free_and_reserved_add_up_to_the_device(queued: World) -> None:
    queued.create("jobs.batch", job("j", queue="gpu", limits={SLICE: 1}, delay="1h"))
    queued.wait(120)
    parts = {
        name: float(
            next(
                r
                for r in rows(queued, "h100-0", f"DCGM_FI_DEV_FB_{name}")
                if r.get("GPU_I_PROFILE") == "3g.40gb"
            )["value"]
        )
        for name in ("USED", "FREE", "RESERVED")
    }
    assert parts["USED"] > 1000
    assert abs(sum(parts.values()) - 40448) <= 2


def test_a_silent_pods_device_says_nothing_and_the_others_go_on(queued: World) -> None:
    """A row of zeros would be a lie about work that nobody sees."""
    before = len(rows(queued, "h100-0", "DCGM_FI_PROF_SM_ACTIVE"))
    body = stateful("quiet", queue="gpu", limits={SLICE: 1})
    body["spec"]["template"]["metadata"]["annotations"] = {"sandbox.allotment.dev/behaviour": "silent"}
    queued.create("statefulsets.apps", body)
    queued.wait(30)
    active = rows(queued, "h100-0", "DCGM_FI_PROF_SM_ACTIVE")
    assert len(active) == before - 1
    assert not [row for row in active if row.get("pod") == "quiet-0"]


def test_energy_grows_with_power_and_time(queued: World) -> None:
    reader = telemetry(queued)
    first = reader.boards("h100-0", queued.cluster.clock.now())[0]
    queued.wait(60)
    second = reader.boards("h100-0", queued.cluster.clock.now())[0]
    assert second.energy_mj - first.energy_mj == 60 * first.watts * 1000


def test_time_sliced_pods_share_a_gpu_and_each_has_a_row(world: World) -> None:
    for name in ("a", "b"):
        world.create("pods", plain_pod(name, containers=[container({"nvidia.com/gpu.shared": 1})]))
    world.wait(10)
    found = rows(world, "t4-0", "DCGM_FI_DEV_FB_USED")
    assert sorted(row["pod"] for row in found) == ["a", "b"]
    assert len({row["UUID"] for row in found}) == 1
    assert [row["value"] for row in rows(world, "t4-0", "ALLOTMENT_GPU_PROCESSES") if "pod" in row] == [
        "2",
        "2",
    ]


def test_a_zombies_memory_stays_on_the_device_after_its_pod(queued: World) -> None:
    body = stateful("z", limits={SLICE: 1})
    body["spec"]["template"]["metadata"]["annotations"] = {"sandbox.allotment.dev/behaviour": "zombie"}
    queued.create("statefulsets.apps", body)
    queued.wait(120)
    counted = rows(queued, "h100-0", "ALLOTMENT_GPU_PROCESSES")
    assert {row["value"]: row.get("pod") for row in counted} == {"1": "z-0", "0": None}
    queued.wait(2400)
    assert {row["value"] for row in rows(queued, "h100-0", "ALLOTMENT_GPU_PROCESSES")} == {"0"}
    reader = telemetry(queued)
    reader.boards("h100-0", queued.cluster.clock.now())
    queued.client.delete("statefulsets.apps", "z", NAMESPACE)
    queued.wait(30)
    left = [
        r
        for b in reader.boards("h100-0", queued.cluster.clock.now())
        for r in b.readings
        if r.device.instance
    ]
    haunted = [r for r in left if r.used.memory_mib > 0]
    assert [(r.holder, r.used.sm) for r in haunted] == [(None, 0.0)]


def test_a_lost_node_turns_unknown_and_its_pods_go_after_five_minutes(world: World) -> None:
    world.create("statefulsets.apps", stateful("db"))
    world.wait(5)
    node, uid = world.pod("db-0")["spec"]["nodeName"], world.pod("db-0")["metadata"]["uid"]
    faults.inject(world.client, Fault(FaultKind.NODE_LOST, node), world.cluster.clock.now())
    world.wait(10)
    lost = world.client.get("nodes", node)
    assert lost is not None
    assert {c["status"] for c in lost["status"]["conditions"]} == {"Unknown"}
    assert faults.exporter_is_silent(lost, world.cluster.clock.now())
    assert world.pod("db-0")["metadata"]["uid"] == uid
    world.wait(320)
    assert world.pod("db-0")["spec"]["nodeName"] != node
    faults.inject(world.client, Fault(FaultKind.NODE_BACK, node), world.cluster.clock.now())
    world.wait(5)
    back = world.client.get("nodes", node)
    assert back is not None
    assert back["status"]["conditions"][-1]["reason"] == "KubeletReady"
    assert not back["spec"].get("taints")


def test_xid_79_silences_the_gpu_and_kills_its_processes(queued: World) -> None:
    queued.create("jobs.batch", job("j", queue="gpu", limits={SLICE: 1}, delay="1h", backoffLimit=0))
    queued.wait(10)
    faults.inject(queued.client, Fault(FaultKind.XID, "h100-0", gpu=1), queued.cluster.clock.now())
    queued.wait(10)
    codes = {row["gpu"]: row["value"] for row in rows(queued, "h100-0", "DCGM_FI_DEV_XID_ERRORS")}
    assert codes == {"0": "0", "1": "79"}
    assert {row["gpu"] for row in rows(queued, "h100-0", "DCGM_FI_DEV_FB_USED")} == {"0"}
    assert queued.conditions("job", "j")["Finished"][1] == "Failed"


def test_a_spot_notice_taints_then_takes_the_node_with_its_pods(world: World) -> None:
    selector = {"kubernetes.io/hostname": "l4-0"}
    world.create("pods", plain_pod("p", nodeSelector=selector))
    world.wait(5)
    faults.inject(world.client, Fault(FaultKind.SPOT_NOTICE, "l4-0", seconds=90), world.cluster.clock.now())
    world.wait(60)
    node = world.client.get("nodes", "l4-0")
    assert node is not None
    assert node["spec"]["taints"][0]["key"] == "aws-node-termination-handler/spot-itn"
    assert world.pod("p")["status"]["phase"] == "Running"
    world.wait(60)
    assert world.client.get("pods", "p", NAMESPACE) is None


def test_an_exporter_gap_ends_by_itself(world: World) -> None:
    faults.inject(
        world.client, Fault(FaultKind.EXPORTER_GAP, "h100-0", seconds=60), world.cluster.clock.now()
    )
    node = world.client.get("nodes", "h100-0")
    assert node is not None
    assert faults.exporter_is_silent(node, world.cluster.clock.now())
    world.wait(61)
    assert not faults.exporter_is_silent(node, world.cluster.clock.now())


def test_installing_the_fleet_again_changes_nothing(queued: World) -> None:
    from sandbox.api.controllers.manager import Manager
    from sandbox.fleet.plant import install_plant

    queued.client.patch("nodes", "l4-0", {"metadata": {"labels": {"mine": "kept"}}})
    version = queued.cluster.store.version
    install_plant(queued.cluster, Manager(queued.cluster), "laptop", 7)
    assert queued.cluster.store.version == version
    assert queued.client.list(WORKLOADS) == []
