"""The port to a cluster: what the reconcile floor may ask of Kubernetes, on plain dicts.

`gateway.client` is the one implementation; tests that need no server declare a double of this Protocol.
Every call has a time limit and raises only what `apps.cluster.errors` defines.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from apps.cluster.errors import Unreachable
from apps.cluster.gateway.forwarding import Way
from apps.cluster.models import Cluster
from apps.cluster.specs import Body, ClientKey, Endpoint, Manifest, ObjectRef, Page, WatchEvent
from apps.sealing import unseal

__all__ = [
    "Gateway",
    "ObjectRef",
    "PodAccess",
    "Probe",
    "WatchEvent",
    "WatchStream",
    "open_as",
    "open_gateway",
    "open_keyed",
    "open_probe",
]


class WatchStream(Protocol):
    """A running watch. `close` may be called from another thread and ends the iteration at once."""

    def __iter__(self) -> Iterator[WatchEvent]:
        """The events, until the server ends the watch or somebody closes it."""
        ...

    def close(self) -> None:
        """End it now."""
        ...


class Gateway(Protocol):
    """One cluster. Implementations are safe to use from several threads."""

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Body:
        """Server-side apply as our field manager, unknown fields refused; answers the whole object.

        Raises `Conflict` naming the other managers when a field is theirs and `force` is off.
        """
        ...

    def merge(self, ref: ObjectRef, changes: Manifest, *, resource_version: str) -> Body:
        """JSON merge patch of an object that is not ours, on exactly this version; answers the whole object.

        For fields that server-side apply cannot share, such as the taints of a node (one atomic list).
        Raises `Conflict` where the object has moved on.
        """
        ...

    def get(self, ref: ObjectRef) -> Body | None:
        """The object, or None where it, its namespace or its kind is absent."""
        ...

    def look(self, ref: ObjectRef) -> Body | None:
        """As `get`, by the right to list: the product may not `get` most of what it applies."""
        ...

    def delete(self, ref: ObjectRef, *, uid: str) -> bool:
        """Ask for the removal of exactly this uid, dependents in the background; False if it is not there."""
        ...

    def list(self, kind: str, *, label_selector: str = "", namespace: str = "") -> tuple[list[Body], str]:
        """Every object of the kind in the cluster, or in one namespace, and the resourceVersion that a watch
        goes on from.
        """
        ...

    def page(self, kind: str, *, label_selector: str = "", namespace: str = "", going_on: str = "") -> Page:
        """The first part of such a list, or the one that the page before names; all of one snapshot.

        Raises `Expired` where the cluster no longer keeps that snapshot: the list begins anew.
        """
        ...

    def watch(
        self, kind: str, resource_version: str, timeout_seconds: int, *, label_selector: str = ""
    ) -> WatchStream:
        """What changes after `resource_version`, bookmarks included; raises `Expired` where it is too old."""
        ...

    def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        previous: bool = False,
        tail_lines: int = 0,
        since_seconds: int = 0,
    ) -> str:
        """What the container has written, at most 1 MiB of it; 0 means no limit. `previous`: its run before
        the present one, where the kubelet started it again.
        """
        ...

    def read_log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, seconds: float
    ) -> Iterator[bytes]:
        """The container's last lines as bytes, a part at a time, however much they are. Raises `Unreachable`
        where it takes longer than that.
        """
        ...

    def stream_log(
        self, namespace: str, pod: str, *, container: str = "", tail_lines: int = 0
    ) -> AsyncGenerator[Sequence[str], None]:
        """The container's lines as they come, without line ends, those together that came together; ends with
        the container, or when it was quiet for ten minutes. Asks the cluster once it is read.
        """
        ...

    def port_forward(self, namespace: str, pod: str, port: int) -> Way:
        """The way to a port of a pod through the API server. Asks the cluster once something connects."""
        ...

    def create_token(self, namespace: str, account: str, *, seconds: int) -> tuple[str, datetime]:
        """A token of a service account by TokenRequest, and when it ends; the server may shorten its life."""
        ...

    def endpoint(self) -> Endpoint:
        """Where the API server is, and by which authority it is known: what a kubeconfig needs."""
        ...

    def server_version(self) -> str:
        """`v1.36.3`: the cheapest call that proves the cluster answers."""
        ...

    def api_resources(self, api_version: str) -> frozenset[str]:
        """The plurals served under a group version such as `kueue.x-k8s.io/v1beta2`; empty where it is not
        served.
        """
        ...


class Probe(Protocol):
    """What an attestation asks of a cluster with somebody else's token. Changes nothing."""

    def may(self, verb: str, resource: str, *, group: str, namespace: str) -> bool:
        """Whether the token's owner has this right; `pods/exec` names a subresource, no namespace means any.

        Source: SelfSubjectAccessReview, the API server's own judgement.
        """
        ...

    def try_create(self, manifest: Manifest) -> Body:
        """Create as a dry run: every guard judges it, nothing is kept."""
        ...

    def list(self, kind: str, *, label_selector: str = "", namespace: str = "") -> tuple[list[Body], str]:
        """As `Gateway.list`."""
        ...


class PodAccess(Protocol):
    """What a member does in pods, by a credential of their own."""

    def run_command(
        self, namespace: str, pod: str, command: Sequence[str], *, is_terminal: bool, container: str = ""
    ) -> Way:
        """The way to run a command in a container (the first), for `executing.running`, which asks the
        cluster. With a terminal its errors are part of its output.
        """
        ...

    def port_forward(self, namespace: str, pod: str, port: int) -> Way:
        """As `Gateway.port_forward`."""
        ...


def open_probe(cluster: Cluster, token: str) -> Probe:
    """The registered cluster by the same address, with this token and no other credential."""
    from apps.cluster.gateway import client

    return client.with_token(cluster.kubeconfig_path, token, text=_registered(cluster))


def open_as(cluster: Cluster, token: str) -> PodAccess:
    """The registered cluster as whoever the token is; kept nowhere."""
    from apps.cluster.gateway import client

    return client.with_token(cluster.kubeconfig_path, token, text=_registered(cluster))


def open_gateway(cluster: Cluster) -> Gateway:
    """The gateway of a registered cluster, one per process and version of its kubeconfig.

    Raises `Unreachable` when that cannot be read; never calls the cluster.
    """
    from apps.cluster.gateway import client

    text = _registered(cluster)
    return client.for_text(text) if text else client.for_kubeconfig(cluster.kubeconfig_path)


def open_keyed(key: ClientKey) -> Gateway:
    """An API server that a client's certificate opens; kept nowhere. `Unreachable` when it cannot be used."""
    from apps.cluster.gateway import client_cert_gateway

    return client_cert_gateway.KeyedGateway(key)


def _registered(cluster: Cluster) -> str:
    """What was registered over REST; empty where the operator named a file."""
    if cluster.kubeconfig_path or not cluster.kubeconfig_sealed:
        return ""
    try:
        return unseal(cluster.kubeconfig_sealed)
    except ValueError as error:
        raise Unreachable(f"The kubeconfig of {cluster.slug} cannot be read: {error}.") from error
