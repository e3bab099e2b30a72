"""Devices that share counters: what claims get beside each other, and when a pool gives nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox import controllers
from sandbox import fleet as sandbox_fleet
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from sandbox.controllers.dra.allocate import Allocator, CannotAllocate, SelectorCache
from sandbox.controllers.dra.pools import stock_of
from sandbox.fleet import faults
from sandbox.fleet.faults import Fault, FaultKind
from sandbox.fleet.slices import DRIVER, device_classes, resource_slices
from sandbox.fleet.spec import API_VERSION, Fleet, parse_fleet
from sandbox.fleet.telemetry import Telemetry
from tests.sandbox.controllers.bodies import NAMESPACE
from tests.sandbox.controllers.conftest import World
from tests.sandbox.controllers.pods import plain_pod

Body = dict[str, Any]
MIG = "mig.nvidia.com"
CLASSES = {body["metadata"]["name"]: body for body in device_classes()}
MATCH = SelectorCache()


def document(gpus: int = 1) -> str:
    sharing = "sharing: {mode: mig-on-demand}"
    pool = f"{{name: a, model: H100 80GB, nodes: 1, gpusPerNode: {gpus}, {sharing}}}"
    return f"apiVersion: {API_VERSION}\nkind: Fleet\nname: f\npools:\n  - {pool}\n"


def fleet(gpus: int = 1) -> Fleet:
    return parse_fleet(document(gpus))


def ask(profile: str, count: int = 1, **more: Any) -> Body:
    exact: Body = {"deviceClassName": MIG if profile else DRIVER, "count": count, **more}
    if profile:
        expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
        exact["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": f"r-{profile.replace('.', '')}", "exactly": exact}


def claim(*requests: Body, **more: Any) -> Body:
    return {"spec": {"devices": {"requests": list(requests), **more}}}


def allocate(slices: list[Body], *claims: Body, held: tuple[str, ...] = ()) -> list[str]:
    """The devices that the claims of one pod get, without what all names begin with."""
    stock, taken = stock_of(slices, "a-0"), {(DRIVER, "a-0", name) for name in held}
    allocator = Allocator(stock.candidates, CLASSES, taken, MATCH, stock.left(taken))
    return [result["device"] for results in allocator.allocate(claims) for result in results]


def refused(slices: list[Body], *claims: Body, held: tuple[str, ...] = ()) -> bool:
    try:
        allocate(slices, *claims, held=held)
    except CannotAllocate:
        return True
    return False


def test_a_whole_board_and_its_slices_exclude_each_other() -> None:
    slices = resource_slices(fleet(), "a-0", 7)
    small = "gpu-0-mig-1g10gb-19-6"
    assert allocate(slices, claim(ask(""))) == ["gpu-0"]
    assert refused(slices, claim(ask("")), held=(small,))
    assert refused(slices, claim(ask("1g.10gb")), held=("gpu-0",))
    assert allocate(slices, claim(ask("3g.40gb")), held=(small,)) == ["gpu-0-mig-3g40gb-9-0"]
    assert refused(slices, claim(ask("3g.40gb", 2)), held=(small,))


def test_the_only_engine_of_a_board_is_given_once() -> None:
    slices = resource_slices(fleet(), "a-0", 7)
    media = "gpu-0-mig-1g10gb-me-20-0"
    assert refused(slices, claim(ask("1g.10gb+me")), held=(media,))
    assert len(allocate(slices, claim(ask("1g.10gb", 6)), held=(media,))) == 6


def test_a_device_is_taken_back_where_it_leaves_a_later_request_or_claim_without_one() -> None:
    """The first place of the half of three is the only one of the half of four."""
    slices = resource_slices(fleet(), "a-0", 7)
    both = ["gpu-0-mig-3g40gb-9-4", "gpu-0-mig-4g40gb-5-0"]
    assert allocate(slices, claim(ask("3g.40gb"), ask("4g.40gb"))) == both
    assert allocate(slices, claim(ask("3g.40gb")), claim(ask("4g.40gb"))) == both
    assert refused(slices, claim(ask("3g.40gb"), ask("4g.40gb"), ask("1g.10gb")))


def test_what_cannot_be_given_leaves_everything_as_it_was() -> None:
    stock = stock_of(resource_slices(fleet(), "a-0", 7), "a-0")
    left = stock.left(())
    allocator = Allocator(stock.candidates, CLASSES, set(), MATCH, left)
    with pytest.raises(CannotAllocate):
        allocator.allocate([claim(ask("4g.40gb"), ask("4g.40gb"))])
    assert (allocator.taken, left) == (set(), dict(stock.counters))


def test_a_constraint_holds_over_all_requests_of_its_claim() -> None:
    slices = resource_slices(fleet(2), "a-0", 7)
    one_board = {"constraints": [{"matchAttribute": f"{DRIVER}/parentUUID"}]}
    free = allocate(slices, claim(ask("4g.40gb", 2)))
    assert {name[:5] for name in free} == {"gpu-0", "gpu-1"}
    assert refused(slices, claim(ask("4g.40gb"), ask("4g.40gb"), **one_board))
    half = ("gpu-0-mig-3g40gb-9-0",)
    chosen = allocate(slices, claim(ask("3g.40gb"), ask("1g.10gb", 2), **one_board), held=half)
    assert len({name[:5] for name in chosen}) == 1


def test_all_of_a_board_that_is_cut_on_demand_cannot_be_had() -> None:
    slices = resource_slices(fleet(2), "a-0", 7)
    assert sorted(allocate(slices, claim(ask("", allocationMode="All")))) == ["gpu-0", "gpu-1"]
    assert refused(slices, claim(ask("3g.40gb", allocationMode="All")), held=("gpu-0-mig-1g10gb-19-0",))
    assert refused(slices, claim(ask("1g.20gb", allocationMode="All"), ask("")))


def test_a_pool_that_is_not_whole_or_takes_of_unknown_counters_gives_nothing() -> None:
    counters, *boards = resource_slices(fleet(2), "a-0", 7)
    assert refused([counters, boards[0]], claim(ask("")))
    counters["spec"]["sharedCounters"].pop()
    assert refused([counters, *boards], claim(ask("")))


def test_a_newer_generation_hides_the_older_one() -> None:
    old = resource_slices(fleet(2), "a-0", 7)
    new = resource_slices(fleet(1), "a-0", 7)
    for body in new:
        body["spec"]["pool"]["generation"] = 2
    for slices in ([*old, *new], [*new, *old]):
        assert refused(slices, claim(ask("", 2)))
        assert allocate(slices, claim(ask(""))) == ["gpu-0"]


@pytest.fixture
def cut(tmp_path: Path) -> World:
    """A cluster of one board that is cut on demand."""
    path = tmp_path / "fleet.yaml"
    path.write_text(document())
    cluster = Cluster.in_memory(seed=7, start=datetime(2026, 11, 21, 10, tzinfo=UTC))
    manager = Manager(cluster)
    lifecycle.install(cluster, manager)
    controllers.install(cluster, manager)
    sandbox_fleet.install(cluster, manager, str(path), 7)
    world = World(cluster, manager, cluster.client("tester", "tester"))
    world.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "")
    for name, request in (("half", ask("3g.40gb")), ("whole", ask(""))):
        template = {"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": claim(request)}
        body = {"apiVersion": "resource.k8s.io/v1", **template}
        world.create("resourceclaimtemplates.resource.k8s.io", body)
    return world


def of(template: str) -> Body:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}]}


def test_a_pod_waits_for_the_whole_board_until_its_slice_is_given_back(cut: World) -> None:
    def devices() -> list[str]:
        (board,) = Telemetry(cut.client, fleet(), 7).boards("a-0", cut.cluster.clock.now())
        return [reading.device.name for reading in board.readings]

    assert devices() == ["gpu-0"]
    cut.create("pods", plain_pod("first", **of("half")))
    cut.create("pods", plain_pod("second", **of("whole")))
    cut.wait(10)
    assert [cut.pod(name)["status"]["phase"] for name in ("first", "second")] == ["Running", "Pending"]
    assert devices() == ["gpu-0-mig-3g40gb-9-0"], "the exporter knows what is there"
    cut.client.delete("pods", "first", NAMESPACE)
    cut.wait(60)
    assert cut.pod("second")["status"]["phase"] == "Running"
    assert devices() == ["gpu-0"]


def test_faults_of_such_a_board_reach_all_that_it_could_be(cut: World) -> None:
    now = cut.cluster.clock.now()
    faults.inject(cut.client, Fault(FaultKind.XID_TAINT, "a-0", gpu=0, code=48), now)
    cut.create("pods", plain_pod("first", **of("half")))
    cut.wait(10)
    assert cut.pod("first")["status"]["phase"] == "Pending"
    faults.inject(cut.client, Fault(FaultKind.NODE_BACK, "a-0"), now)
    cut.wait(60)
    assert cut.pod("first")["status"]["phase"] == "Running"
