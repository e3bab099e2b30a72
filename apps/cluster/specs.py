"""The shapes that the floors of this app hand each other: references, manifests, watch events. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.words import Word

Body = dict[str, Any]
"""A Kubernetes object as plain JSON: what an API server sends. Typed models would drop fields they do not
know.
"""
Manifest = dict[str, Any]
"""A Kubernetes object as we want it: only the fields that we own."""


class ObjectRef(NamedTuple):
    """Names one object of a cluster; `namespace` is empty for kinds that lie in none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As people write it: `Job vision-x/train`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Endpoint(NamedTuple):
    """Where an API server is, and the PEM of the authority by which clients know it (empty: a public one).

    `certificate`: that of this client, if by one it is known to the server; PEM, without its key.
    """

    server: str
    authority: bytes
    certificate: bytes = b""


@dataclass(frozen=True)
class ClientKey:
    """Where an API server is, by which authority it is known, and the certificate that opens it; all PEM."""

    server: str
    authority: bytes
    certificate: bytes = field(repr=False)
    private_key: bytes = field(repr=False)


class Page(NamedTuple):
    """A part of a list, all of one version; `going_on` asks for the next one and is empty on the last."""

    items: list[Body]
    version: str
    going_on: str = ""


class EventType(Word):
    """What a watch says about an object."""

    ADDED = "ADDED", "Added"
    MODIFIED = "MODIFIED", "Modified"
    DELETED = "DELETED", "Deleted"
    BOOKMARK = "BOOKMARK", "Bookmark"


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch; a bookmark carries nothing but `metadata.resourceVersion`."""

    type: EventType
    object: Body

    @property
    def resource_version(self) -> str:
        """The version up to which the watch has told everything."""
        return str(self.object.get("metadata", {}).get("resourceVersion", ""))


@dataclass(frozen=True)
class Observed:
    """An object as the mirror knows it. `owner_id` is the row it belongs to, by label or through its owners.

    The three hashes are those of `apps.cluster.models.MirrorObject`.
    """

    ref: ObjectRef
    uid: str
    resource_version: int = 0
    owner_kind: str = ""
    owner_id: str = ""
    controller_uid: str = ""
    generation: int = 0
    is_managed: bool = False
    deleting: bool = False
    sent_hash: str = ""
    applied_hash: str = ""
    live_hash: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_drifted(self) -> bool:
        """Whether somebody changed a field that we applied."""
        return bool(self.applied_hash) and self.live_hash != self.applied_hash


def ref_of(body: Mapping[str, Any]) -> ObjectRef:
    """The reference of a manifest or an object."""
    metadata = body["metadata"]
    return ObjectRef(body["kind"], metadata.get("namespace", ""), metadata["name"])


class Posture(Word):
    """Whom a node serves: everybody, its tenant alone, or it is changing hands."""

    SHARED = "shared", "Serves everybody"
    DEDICATED = "dedicated", "Serves one tenant"
    CLEARING = "clearing", "Is being cleared for one tenant"
    RELEASING = "releasing", "Is being given back"


@dataclass(frozen=True)
class NodeUse:
    """What a node is used for; the apps above know."""

    flavor: str | None = None
    posture: str = Posture.SHARED
    tenant: str | None = None
    handover: Mapping[str, Any] | None = None
