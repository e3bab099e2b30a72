"""Every workload has a host of its own, so that its page is of another origin than the portal's and every
other workload's. Pure.
"""

from dataclasses import dataclass
from uuid import UUID

from apps.workloads.gateway_specs import DOORS_OWN

ENTRY = f"{DOORS_OWN}/enter"
"""The address on a workload's host that lets a browser in."""
SHELLS = "ssh"
"""The label of the host that SSH connections come to. No workload has it: theirs are UUIDs."""
TERMINALS = "terminal"
"""The label of the host that terminals of the portal's pages, and of programs, connect to."""
ALIAS = ".allotment"
"""How the names end that people give to `ssh`; their `~/.ssh/config` leads them to the door."""


@dataclass(frozen=True)
class ShellName:
    """What an SSH connection is for: a workload by its slug in its tenant, and which of its pods."""

    tenant: str
    workload: str
    pod: int = 0

    @property
    def path(self) -> str:
        """On the host for SSH."""
        return f"/{self.tenant}/{self.workload}" + (f"/{self.pod}" if self.pod else "")


def shell_name(path: str) -> ShellName | None:
    """Which one a path means: `/TENANT/WORKLOAD`, or `/TENANT/WORKLOAD/2` for the third of its pods."""
    match path.strip("/").split("/"):
        case [tenant, workload] if tenant and workload:
            return ShellName(tenant, workload)
        case [tenant, workload, pod] if tenant and workload and pod.isascii() and pod.isdigit():
            return ShellName(tenant, workload, int(pod[:4]))
    return None


def alias(tenant: str, workload: str) -> str:
    """What a person types after `ssh`."""
    return f"{workload}.{tenant}{ALIAS}"


@dataclass(frozen=True)
class Domain:
    """Below which the hosts lie: `scheme://name[:port]` as browsers see it."""

    scheme: str
    netloc: str

    @property
    def everywhere(self) -> str:
        """All hosts below it, as a Content-Security-Policy names them."""
        return f"{self.scheme}://*.{self.netloc}"

    def host(self, workload: UUID) -> str:
        """What a browser sends as `Host` to this workload."""
        return f"{workload}.{self.netloc}"

    def origin(self, workload: UUID) -> str:
        """What a browser sends as `Origin` from this workload's own page."""
        return f"{self.scheme}://{self.host(workload)}"

    def entry(self, workload: UUID, code: str) -> str:
        """The one-time address."""
        return f"{self.origin(workload)}{ENTRY}?code={code}"

    @property
    def shells(self) -> str:
        """The host that SSH connections come to, each in a WebSocket."""
        return f"{SHELLS}.{self.netloc}"

    @property
    def shells_url(self) -> str:
        """Its address, for the program that `ssh` starts as its ProxyCommand."""
        return f"{self._sockets}://{self.shells}"

    @property
    def terminals(self) -> str:
        """The host that terminals of pages and programs connect to, each by a WebSocket."""
        return f"{TERMINALS}.{self.netloc}"

    @property
    def terminals_url(self) -> str:
        """Its address, as the policy of a page names it."""
        return f"{self._sockets}://{self.terminals}"

    def terminal(self, workload: UUID) -> str:
        """Where the WebSocket of a terminal in this workload connects to."""
        return f"{self.terminals_url}/{workload}"

    @property
    def _sockets(self) -> str:
        return "wss" if self.scheme == "https" else "ws"

    def workload(self, host: str) -> UUID | None:
        """Whose host it is. Only the one way in which we write it: everything else is nobody's."""
        try:
            found = UUID(host.partition(".")[0])
        except ValueError:
            return None
        return found if host == self.host(found) else None
