"""Every workload has a host of its own, so that its page is of another origin than the portal's and every
other workload's. Pure.
"""

from dataclasses import dataclass
from uuid import UUID

ENTRY = "/.allotment/enter"
"""The one address on a workload's host that is the door's own."""


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

    def workload(self, host: str) -> UUID | None:
        """Whose host it is. Only the one way in which we write it: everything else is nobody's."""
        try:
            found = UUID(host.partition(".")[0])
        except ValueError:
            return None
        return found if host == self.host(found) else None
