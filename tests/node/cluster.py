"""A real control plane with real nodes: brings them up beside it, takes them down, cuts a node's power.

Attaches to the one that runs in its folder, as `ControlPlane` does. Needs root and Debian's packages.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane import binaries, process
from tests.controlplane.network import answers
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.controlplane.process import Record
from tests.node import documents, programs, registry
from tests.node.documents import Place
from tests.node.images import recipes
from tests.node.network import Network
from tests.node.node import Node
from tests.patience import within

CHECKOUT = Path(__file__).parents[2]
_NEEDED = {"runc": "runc", "socat": "socat", "nft": "nftables", "ip": "iproute2", "nsenter": "util-linux"}
_REGISTRY_SECONDS = 10.0

logger = logging.getLogger(__name__)


@dataclass
class State:
    """What is remembered between two commands."""

    network: int
    account: str
    processes: dict[str, Record] = field(default_factory=dict)
    nodes: dict[str, Record | None] = field(default_factory=dict)


def what_is_missing() -> str:
    """Why no node can run here, in words for a person; empty where one can."""
    if os.geteuid():
        return "a node needs root: namespaces, mounts and control groups are the machine's"
    missing = [package for program, package in _NEEDED.items() if not shutil.which(program)]
    if not Path("/usr/lib/cni/bridge").exists():
        missing.append("containernetworking-plugins")
    return f"missing packages: {' '.join(missing)}" if missing else ""


class NodeCluster:
    """A plane, a registry and nodes called node1, node2 ... in one folder; a context manager."""

    def __init__(self, folder: Path, *, audit: bool = False) -> None:
        self.folder = folder.resolve()
        self._audit = audit
        self._state = self._load()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def plane(self) -> ControlPlane:
        """The control plane: kubeconfigs, kubectl, outages."""
        return self._plane

    @property
    def network(self) -> Network:
        """The addresses of nodes, pods and registry."""
        return Network(self._running().network)

    @property
    def pull_account(self) -> tuple[str, str]:
        """User and password of the registry's private images."""
        user, _, password = self._running().account.partition(":")
        return user, password

    def up(self, nodes: int = 1) -> None:
        """Plane, registry and this many nodes; returns when they are ready. On failure stops all."""
        problem = what_is_missing()
        if problem:
            raise PlaneError(problem)
        if self._state:
            raise PlaneError(f"nodes were already started in {self.folder}; take them down first")
        programs_built = binaries.ensure(programs.NODE)
        store = recipes.ensure(programs_built)
        self._state = State(Network.make().number, f"puller:{secrets.token_urlsafe(12)}")
        try:
            self._plane = ControlPlane(
                self.folder, audit=self._audit, fleet_name="none", nodes_at=self.network.machine
            )
            self._save()
            self._plane.up()
            self._serve(store.root)
            self._plane.apply([*documents.accounts(), *documents.dns()])
            for number in range(1, nodes + 1):
                self.start_node(f"node{number}")
        except BaseException:
            self.down()
            raise

    def start_node(self, name: str) -> None:
        """Adds a node, or switches one on again; returns when it is ready."""
        self.switch_on(name)
        self.node(name).wait_ready()

    def switch_on(self, name: str) -> None:
        """Its processes start; the node is ready later."""
        node, state = self.node(name), self._running()
        self._plane.apply(documents.volumes(name, node.place.file("volumes")))
        state.nodes[name] = node.start()
        self._save()

    def cut_power(self, name: str) -> None:
        """Everything on the node ends at once; its disk stays."""
        state = self._running()
        record = state.nodes[name]
        if record:
            self.node(name).stop(record)
        state.nodes[name] = None
        self._save()

    def down(self) -> None:
        """Stops every node, the registry and the plane; logs and the images pulled stay."""
        if not self._state:
            return
        for name in list(self._state.nodes):
            self.cut_power(name)
        for record in self._state.processes.values():
            process.stop(record, 2)
        self._plane.down()
        self.network.remove()
        self._path.unlink(missing_ok=True)
        self._state = None

    def node(self, name: str) -> Node:
        """A node by its name: node1, node2 ..."""
        built = binaries.find(programs.NODE)
        if built is None:
            raise PlaneError("the nodes' programs are not built; run `python -m tests.node build` once")
        number = int(name.removeprefix("node"))
        place = Place(
            name=name,
            number=number,
            folder=self.folder / name,
            network=self.network,
            authority=self._plane.layout.pki.cert("ca"),
            # Nobody else has this network meanwhile, so the images pulled for it may stay for the next.
            containerd_root=binaries.cache_root().parent / "nodes" / self.network.namespace(number),
        )
        return Node(place, self._plane, built)

    def forward(self, port: int, to: int) -> process.Record:
        """Nodes and pods reach a port of this machine's loopback at `port` of `network.machine`."""
        command = [
            "socat", f"TCP-LISTEN:{port},bind={self.network.machine},fork,reuseaddr,nodelay",
            f"TCP:127.0.0.1:{to},nodelay",
        ]  # fmt: skip
        return process.spawn(command, self.folder / "logs" / f"forward-{port}.log", {})

    def requests(self) -> list[str]:
        """What was asked of the registry, a line each."""
        log = self.folder / "logs" / "registry.log"
        return log.read_text().splitlines() if log.exists() else []

    def _serve(self, store: Path) -> None:
        """The registry, and the API server's port on the bridge: it listens on loopback alone."""
        state, network = self._running(), self.network
        command = [
            sys.executable, "-m", "tests.node.registry", f"--store={store}", f"--address={network.registry}",
            f"--account={state.account}",
        ]  # fmt: skip
        path = {"PYTHONPATH": str(CHECKOUT)}
        state.processes["registry"] = process.spawn(command, self.folder / "logs" / "registry.log", path)
        port = self._plane.layout.port("kube-apiserver")
        state.processes["forward"] = self.forward(port, port)
        self._save()
        deadline = within(_REGISTRY_SECONDS)
        while not answers(f"http://{network.registry}:{registry.PORT}/v2/"):
            if time.monotonic() > deadline:
                said = process.tail(self.folder / "logs" / "registry.log")
                raise PlaneError(f"the registry does not answer:\n{said}")
            time.sleep(0.05)

    def _running(self) -> State:
        if self._state is None:
            raise PlaneError(f"no nodes run in {self.folder}")
        return self._state

    @property
    def _path(self) -> Path:
        return self.folder / "nodes.json"

    def _load(self) -> State | None:
        if not self._path.exists():
            return None
        self._plane = ControlPlane(self.folder)
        raw = json.loads(self._path.read_text())
        return State(
            raw["network"],
            raw["account"],
            {name: Record(**record) for name, record in raw["processes"].items()},
            {name: Record(**record) if record else None for name, record in raw["nodes"].items()},
        )

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(json.dumps(asdict(self._running())))
        part.replace(self._path)
