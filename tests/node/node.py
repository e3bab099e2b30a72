"""One node: the files of its processes, its start, its end. Needs root.

A node is one tree of processes in its own mount, PID and network namespaces. Killing its first process is a
power cut: kubelet, containerd and every container end at once, and the API server is told nothing.
"""

from __future__ import annotations

import json
import shutil
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import pki, process
from tests.controlplane.binaries import Binaries
from tests.controlplane.fleet import H100, FleetNode, Gpu, devices, discovery_labels
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.node import documents
from tests.node.documents import Place
from tests.patience import within

_INIT = Path(__file__).parent / "init.sh"
_CGROUPS = Path("/sys/fs/cgroup")
_READY_SECONDS, _GONE_SECONDS = 90.0, 20.0
_CUT = Gpu(H100, (("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)))


@dataclass(frozen=True)
class Node:
    """A node of a plane, running or not."""

    place: Place
    plane: ControlPlane
    programs: Binaries

    @property
    def hardware(self) -> FleetNode:
        """What its driver publishes: one H100, cut into two small slices and a large one."""
        return FleetNode(self.place.name, (_CUT,))

    def start(self) -> process.Record:
        """Starts it as a machine that was just switched on; the images it had are still there."""
        self._write()
        self.place.network.attach(self.place.number)
        environment = {
            "NODE_NAME": self.place.name,
            "NODE_ADDRESS": self.place.address,
            "NODE_DIR": str(self.place.folder),
            "NODE_BIN": str(self.programs.folder / "bin"),
            "NODE_CGROUP": self.place.cgroup,
        }
        namespace = f"/run/netns/{self.place.network.namespace(self.place.number)}"
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["nsenter", f"--net={namespace}", *alone, str(_INIT)]
        return process.spawn(command, self.place.file("init.log"), environment)

    def wait_ready(self) -> None:
        """Until it answers for itself and its devices are known: its Node object may be Ready from before."""
        deadline = within(_READY_SECONDS)
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise PlaneError(f"{self.place.name} is not ready:\n{self.told()}")
            time.sleep(0.3)
        labels = [f"{name}={value}" for name, value in discovery_labels(self.hardware).items()]
        self.plane.kubectl("label", "--overwrite", "node", self.place.name, *labels)

    def stop(self, record: process.Record) -> None:
        """A power cut; returns when nothing of it runs."""
        process.stop(record, 0)
        deadline = within(_GONE_SECONDS)
        while self._groups_left():
            if time.monotonic() > deadline:
                raise PlaneError(f"{self.place.name} left control groups: {self._groups_left()}")
            time.sleep(0.1)
        self.place.network.detach(self.place.number)

    def told(self) -> str:
        """The last lines of its logs."""
        names = ("init", "containerd", "kubelet", "driver", "proxy")
        return "\n".join(f"{name}: {process.tail(self.place.file(f'{name}.log'), 6)}" for name in names)

    def _is_ready(self) -> bool:
        name = self.place.name
        condition = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        try:
            return (
                self.plane.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/healthz") == "ok"
                and self.plane.kubectl("get", "node", name, "-o", condition) == "True"
                and bool(self._slices())
            )
        except PlaneError:
            return False  # Not yet there; what it says in the end is in its logs.

    def _slices(self) -> str:
        on_node = f"--field-selector=spec.nodeName={self.place.name}"
        return self.plane.kubectl("get", "resourceslices", on_node, "-o", "name")

    def _groups_left(self) -> list[str]:
        """Removes its control groups, leaves first; those that a dying task still holds."""
        left = []
        for group in _CGROUPS.glob(f"*/{self.place.cgroup}"):
            for each in [*sorted(group.rglob("*/"), reverse=True), group]:
                try:
                    each.rmdir()
                except FileNotFoundError:
                    continue
                except OSError:
                    left.append(str(each))
        return left

    def _write(self) -> None:
        place = self.place
        for name in ("cni", "cdi", "registries/_default", "kubelet/plugins", "kubelet/plugins_registry"):
            place.file(name).mkdir(parents=True, exist_ok=True)
        for number in range(documents.VOLUMES_PER_NODE):
            place.file(f"volumes/{number}").mkdir(parents=True, exist_ok=True)
        # What a machine loses with its power: sockets and what is prepared for containers.
        shutil.rmtree(place.file("containerd-state"), ignore_errors=True)
        place.file("containerd.sock").unlink(missing_ok=True)
        contents = {
            "kubelet.json": json.dumps(documents.kubelet(place)),
            "proxy.json": json.dumps(documents.proxy(place)),
            "cni/10-pods.conflist": json.dumps(documents.cni(place)),
            "containerd.toml": documents.containerd(place),
            "registries/_default/hosts.toml": documents.registries(place.network),
            "devices.json": json.dumps(devices(self.hardware)),
            "resolv.conf": "",
        }
        for name, content in contents.items():
            place.file(name).write_text(content)
        self._write_identities()

    def _write_identities(self) -> None:
        machine, place = self.plane.layout.pki, self.place
        certificate, key = pki.client(machine, f"system:node:{place.name}", "system:nodes")
        kubelet = {
            "client-certificate-data": b64encode(certificate).decode(),
            "client-key-data": b64encode(key).decode(),
        }
        users = {
            "kubelet": kubelet,
            "proxy": {"token": self.plane.token_of(documents.PROXY, documents.NAMESPACE)},
            "driver": {"token": self.plane.token_of(documents.DRIVER, documents.NAMESPACE)},
        }
        server = f"https://{place.network.machine}:{self.plane.layout.port('kube-apiserver')}"
        for name, user in users.items():
            config = pki.kubeconfig(server, user, place.authority, **{"tls-server-name": "kubernetes"})
            pki.write_private(place.file(f"{name}.kubeconfig"), json.dumps(config).encode())
        certificate, key = pki.server(machine, place.name, place.address)
        pki.write_private(place.file("serving.crt"), certificate)
        pki.write_private(place.file("serving.key"), key)
