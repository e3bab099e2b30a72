"""What an event is of: a model says it of its rows, and who acts on a row hands that over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

PLATFORM_CHAIN = "platform"


_OF_TENANT = "tenant:"


def tenant_chain(slug: str) -> str:
    """The name of a tenant's own chain."""
    return f"{_OF_TENANT}{slug}"


def tenant_of(chain: str) -> str:
    """The slug of the tenant whose chain it is; empty for the platform's."""
    return chain.removeprefix(_OF_TENANT) if chain.startswith(_OF_TENANT) else ""


@dataclass(frozen=True)
class Wanted:
    """Which events somebody looks for; what is empty narrows nothing. The period is [since, until)."""

    actors: Sequence[str] = ()
    actions: Sequence[str] = ()
    kinds: Sequence[str] = ()
    targets: Sequence[str] = ()
    requests: Sequence[str] = ()
    chain: str = ""
    since: datetime | None = None
    until: datetime | None = None
    words: str = ""


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
