"""The kubeconfigs that members take away, and the answer to kubectl's credential plugin. Pure.

Sources: kubeconfig v1; client.authentication.k8s.io/v1 ExecCredential (Kubernetes 1.22 and newer).
"""

import base64
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypedDict

from apps.cluster.specs import Endpoint
from apps.web.shapes.typed import keywords

PLUGIN = "allotment-credential"
"""The credential plugin's file name; the portal serves it."""

EXEC_API: Final = "client.authentication.k8s.io/v1"
CREDENTIAL_SECONDS = 900
"""How long what the plugin fetches lives: kubectl asks again at every start."""


class ExecCredentialStatus(TypedDict):
    """The token, and when it ends."""

    expirationTimestamp: Annotated[str, keywords(format="date-time")]
    token: str


class ExecCredential(TypedDict):
    """What kubectl reads from its plugin."""

    apiVersion: Literal["client.authentication.k8s.io/v1"]
    kind: Literal["ExecCredential"]
    status: ExecCredentialStatus


def with_plugin(*, endpoint: Endpoint, tenant: str, namespace: str, portal: str) -> dict[str, Any]:
    """A kubeconfig without any secret: kubectl runs the plugin, which asks the portal with a token."""
    hint = f"Get {PLUGIN} from {portal}, make it executable and put it on your PATH."
    plugin = {
        "apiVersion": EXEC_API,
        "command": PLUGIN,
        "args": [portal, tenant],
        "installHint": hint,
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }
    return _whole(endpoint, tenant, namespace, {"exec": plugin})


def with_token(*, endpoint: Endpoint, tenant: str, namespace: str, token: str) -> dict[str, Any]:
    """A kubeconfig that works by itself until its token ends; whoever has the file has the access."""
    return _whole(endpoint, tenant, namespace, {"token": token})


def credential(token: str, expires_at: datetime) -> ExecCredential:
    """What kubectl reads from its plugin."""
    ends = expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    status: ExecCredentialStatus = {"expirationTimestamp": ends, "token": token}
    return {"apiVersion": EXEC_API, "kind": "ExecCredential", "status": status}


def _whole(endpoint: Endpoint, tenant: str, namespace: str, user: dict[str, Any]) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.authority:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.authority).decode()
    name = f"allotment-{tenant}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
