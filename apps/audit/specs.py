"""What an event is of: a model says it of its rows, and who acts on a row hands that over."""

from dataclasses import dataclass
from typing import Protocol

PLATFORM_CHAIN = "platform"


def tenant_chain(slug: str) -> str:
    """The name of a tenant's own chain."""
    return f"tenant:{slug}"


@dataclass(frozen=True)
class Target:
    """A thing as the record names it. `tenant` is whose chain keeps its events; empty: the platform's."""

    kind: str
    key: object
    name: str
    tenant: str = ""

    @property
    def chain(self) -> str:
        """The chain that keeps its events."""
        return tenant_chain(self.tenant) if self.tenant else PLATFORM_CHAIN


class Audited(Protocol):
    """A row whose acts are recorded."""

    @property
    def audit_target(self) -> Target:
        """The row as the record names it."""
