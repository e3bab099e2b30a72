"""Whose a device is, by the kubelet's word, over a real gRPC server on a unix socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collector import Collector
from agent.exposition import exposition
from agent.holders import holdings
from agent.podresources import Kubelet, PodsUnknownError
from agent.session import Settings
from agent.snapshot import Gpu, Holder, Instance
from agent.wire import Malformed
from tests.agent import kubelet
from tests.agent.cards import Card, Library, Part
from tests.agent.kubelet import Lister, answer, claim, container, devices, pod
from tests.agent.standin import installed

FIRST = "GPU-8f2c1d90-3e5a-4b17-9c2e-5da9abb51763"
SECOND = "GPU-8f2c1d90-3e5a-4b17-9c2e-5da9abb51764"
MIG = "MIG-11112222-3333-4444-5555-666677778888"
WHOLE = Gpu(0, 0, FIRST, "00000000:18:00.0", "NVIDIA H200")
SLICE = Instance(MIG, "1g.18gb", 7, 0, whole=True, place=(19, 6))


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
def lister(socket: Path) -> Iterator[Lister]:
    with kubelet.serving(socket, Lister()) as found:
        yield found


def test_a_device_plugin_s_device_is_told_by_its_uuid(socket: Path, lister: Lister) -> None:
    lister.answer = answer(
        pod("team-a", "train-0", container("sidecar"), container("main", devices("nvidia.com/gpu", FIRST))),
        pod("team-b", "net", container("main", devices("rdma/hca", "mlx5_0"))),
    )
    found = Kubelet(socket).holdings()
    assert found.of(WHOLE, None) == (Holder("team-a", "train-0", "main"),)
    assert set(found.by_uuid) == {FIRST}


@pytest.mark.parametrize(("name", "replica"), [(f"{FIRST}::3", "3"), (f"{FIRST}-3", "3"), (FIRST, "")])
def test_a_replica_is_a_part_of_its_device(name: str, replica: str) -> None:
    found = holdings(answer(pod("a", "p", container("c", devices("nvidia.com/gpu.shared", name)))))
    assert found.of(WHOLE, None) == (Holder("a", "p", "c", vgpu=replica),)


def test_a_mig_device_is_told_by_its_uuid_or_by_its_place(socket: Path, lister: Lister) -> None:
    lister.answer = answer(
        pod("a", "plugin", container("c", devices("nvidia.com/mig-1g.18gb", MIG))),
        pod("b", "dra", container("c", claim("gpu-claim", "b", "gpu-0-mig-1g18gb-19-6"))),
        pod("b", "other", container("c", claim("gpu-claim-2", "b", "gpu-0-mig-1g18gb-19-5"))),
    )
    found = Kubelet(socket).holdings()
    assert [holder.pod for holder in found.of(WHOLE, SLICE)] == ["plugin", "dra"]
    unplaced = Instance("MIG-x", "1g.18gb", 7, 0, whole=True, place=None)
    assert found.of(WHOLE, unplaced) == ()
    assert found.of(WHOLE, None) == ()


def test_a_claim_brings_its_names(socket: Path, lister: Lister) -> None:
    lister.answer = answer(
        pod(
            "b",
            "dra",
            container("c", claim("gpu-claim", "b", "gpu-0"), claim("net", "b", "gpu-0", driver="net.io")),
        )
    )
    (holder,) = Kubelet(socket).holdings().of(WHOLE, None)
    assert holder == Holder("b", "dra", "c", "", "gpu-claim", "b", "gpu.nvidia.com", "node-1", "gpu-0")


def test_without_a_socket_or_with_a_refusal_nobody_is_known(socket: Path) -> None:
    with pytest.raises(PodsUnknownError, match="there is no socket"):
        Kubelet(socket).holdings()
    with (
        kubelet.serving(socket, Lister(ValueError("too many"))),
        pytest.raises(PodsUnknownError, match="EXHAUSTED"),
    ):
        Kubelet(socket).holdings()
    with (
        kubelet.serving(socket, Lister(b"\x0a\xff")),
        pytest.raises(PodsUnknownError, match="no pod-resources list"),
    ):
        Kubelet(socket).holdings()


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(message: bytes) -> None:
    try:
        found = holdings(message)
    except Malformed:
        return
    assert not found.of(WHOLE, None), "nothing names this device"


@given(st.integers(0, 400))
def test_a_cut_answer_is_refused_or_a_prefix(size: int) -> None:
    whole = answer(*(pod("a", f"p-{n}", container("c", devices("nvidia.com/gpu", FIRST))) for n in range(4)))
    try:
        found = holdings(whole[:size])
    except Malformed:
        return
    assert [holder.pod for holder in found.of(WHOLE, None)] == [
        f"p-{n}" for n in range(len(found.of(WHOLE, None)))
    ]


def agent(library: Library, socket: Path) -> Collector:
    return Collector(Settings("node-1", socket=socket), clock=lambda: library.now)


def test_a_restarted_kubelet_is_found_again(socket: Path) -> None:
    message = answer(pod("a", "p", container("c", devices("nvidia.com/gpu", FIRST))))
    with installed(Library([Card(FIRST, 0)])) as library:
        collector = agent(library, socket)
        with kubelet.serving(socket, Lister(message)) as lister:
            assert collector.collect().rows[0].holders == (Holder("a", "p", "c"),)
            collector.collect()
            assert lister.asked == 1
        library.advance(5)
        gone = collector.collect()
        assert gone.rows[0].holders == ()
        assert [gap.fields for gap in gone.gaps] == [("pod",)]
        with kubelet.serving(socket, Lister(message)):
            holders: tuple[Holder, ...] = ()
            for _ in range(50):
                library.advance(5)
                holders = holders or collector.collect().rows[0].holders
        assert holders == (Holder("a", "p", "c"),)
        collector.close()


def test_a_shared_device_has_no_pod_of_its_own_but_a_row_for_each(socket: Path) -> None:
    """Whose the SM activity is cannot be told, so it carries nobody's name."""
    pods = [pod("a", f"p-{n}", container("c", devices("nvidia.com/gpu", f"{FIRST}::{n}"))) for n in range(2)]
    alone = pod("b", "q", container("c", claim("mine", "b", "gpu-1-mig-1g18gb-19-0")))
    cards = [Card(FIRST, 0), Card(SECOND, 1, parts=[Part(MIG, "1g.18gb", 7)])]
    with installed(Library(cards)) as library, kubelet.serving(socket, Lister(answer(*pods, alone))):
        text = exposition(agent(library, socket).collect())
    lines = text.splitlines()
    power = [line for line in lines if line.startswith("DCGM_FI_DEV_POWER_USAGE")]
    assert len(power) == 2
    assert 'pod="' not in power[0]
    assert 'namespace="b",pod="q",dra_claim_name="mine",dra_claim_namespace="b"' in power[1]
    assert f'dra_mig_device_uuid="{MIG}",dra_mig_profile="1g.18gb"' in power[1]
    shared = [line for line in lines if line.startswith("ALLOTMENT_GPU_HOLDER")]
    assert ['vgpu="0"' in shared[0], 'vgpu="1"' in shared[1], len(shared)] == [True, True, 2]
