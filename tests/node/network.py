"""The network of a plane's nodes: one bridge, a network namespace per node, routes to pods. Needs root.

    10.<180+k>.0.1       the machine on the bridge: API server
    10.<180+k>.0.2       the registry
    10.<180+k>.0.10+n    node n
    10.<180+k>.n.0/24    its pods

The machine routes to the pods, so that a test reaches a pod by its IP; pods do not reach beyond the bridge.
`k` is the first that no other plane of the machine has: making the bridge takes it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_FIRST, _PLANES = 180, 16


class NetworkError(RuntimeError):
    """A command of iproute2 failed; the message is its own."""


@dataclass(frozen=True)
class Network:
    """The addresses and names of one plane's network."""

    number: int

    @classmethod
    def make(cls) -> Network:
        """A bridge that nobody else has."""
        for number in range(_PLANES):
            network = cls(number)
            if not Path("/sys/class/net", network.bridge).exists() and network._take():
                return network
        raise NetworkError(f"{_PLANES} bridges of planes are there; `ip link` shows them as node0 ...")

    @property
    def bridge(self) -> str:
        """Name of the bridge."""
        return f"node{self.number}"

    @property
    def pods(self) -> str:
        """Every address of the plane, pods' included."""
        return f"10.{_FIRST + self.number}.0.0/16"

    @property
    def machine(self) -> str:
        """Where pods and nodes reach what runs on the machine itself."""
        return self._address(0, 1)

    @property
    def registry(self) -> str:
        """The registry's own address."""
        return self._address(0, 2)

    def node(self, number: int) -> str:
        """Node `number`, from 1."""
        return self._address(0, 10 + number)

    def pods_of(self, number: int) -> str:
        """The addresses of a node's pods."""
        return f"{self._address(number, 0)}/24"

    def namespace(self, number: int) -> str:
        """The network namespace of a node."""
        return f"{self.bridge}-{number}"

    def attach(self, number: int) -> None:
        """A new network namespace for a node: its link, its routes to the others, and ours to its pods."""
        namespace, link = self.namespace(number), f"{self.bridge}v{number}"
        ip("netns", "add", namespace)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("link", "set", link, "master", self.bridge, "up")
        ip("-n", namespace, "address", "add", f"{self.node(number)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", namespace, "link", "set", device, "up")
        ip("-n", namespace, "route", "add", "default", "via", self.machine)
        for other in range(1, 10):
            if other != number:  # from node to node, without the machine forwarding between them
                ip("-n", namespace, "route", "add", self.pods_of(other), "via", self.node(other))
        ip("route", "replace", self.pods_of(number), "via", self.node(number))

    def detach(self, number: int) -> None:
        """The node's namespace goes, and its links with it."""
        _try("route", "del", self.pods_of(number))
        _try("link", "del", f"{self.bridge}v{number}")
        _try("netns", "del", self.namespace(number))

    def remove(self) -> None:
        """The bridge goes last."""
        _try("link", "del", self.bridge)

    def _take(self) -> bool:
        if not _try("link", "add", self.bridge, "type", "bridge"):
            return False
        for address in (self.machine, self.registry):
            ip("address", "add", f"{address}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        return True

    def _address(self, third: int, fourth: int) -> str:
        return f"10.{_FIRST + self.number}.{third}.{fourth}"


def ip(*arguments: str) -> None:
    """iproute2's `ip`; a failure raises with its words."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _try(*arguments: str) -> bool:
    """What may be gone already, or taken by another."""
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0
