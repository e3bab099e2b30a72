"""Credentials that lie in files and change while we run: a pod's own account, and a kubeconfig's `tokenFile`.

Kubernetes writes a new token into a pod some time before the old one ends (after an hour as a rule), so it is
read anew for each call: https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apps.cluster.errors import Unreachable
from apps.cluster.gateway.usable import authority_problem

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts a pod's account."""
AUTHORITY, TOKEN = "ca.crt", "token"
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_account(path: str) -> bool:
    """Whether a registration names a mounted account (a folder) instead of a kubeconfig (a file)."""
    return bool(path) and Path(path).is_dir()


def problems(folder: str) -> list[str]:
    """Why the account in this folder opens nothing, in words; an empty list accepts it."""
    found = []
    for name in (AUTHORITY, TOKEN):
        try:
            is_there = bool((Path(folder) / name).read_text().strip())
        except (OSError, ValueError):
            is_there = False
        if not is_there:
            found.append(f"{folder}/{name} is not there, empty, or cannot be read")
    if not found and (problem := authority_problem((Path(folder) / AUTHORITY).read_bytes())):
        found.append(f"{folder}/{AUTHORITY} {problem}")
    missing = [name for name in (HOST, PORT) if not os.environ.get(name)]
    if missing:
        found.append(f"{' and '.join(missing)} not set: this process does not run in a pod")
    return found


def settle(configuration: Any, folder: str) -> None:
    """Lead a client's configuration to the cluster that this pod runs in; raises Unreachable."""
    if wrong := problems(folder):
        raise Unreachable(f"The mounted account cannot be used: {'; '.join(wrong)}.")
    host, port = os.environ[HOST], os.environ[PORT]
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.ssl_ca_cert = str(Path(folder) / AUTHORITY)
    configuration.refresh_api_key_hook = _renewal(Path(folder) / TOKEN)


def follow_token(configuration: Any, document: Mapping[str, Any], folder: Path) -> None:
    """Where the present user of a kubeconfig names a file for its token, that file is read for each call: the
    library would read it once.

    RULE: it counts for more than a `token` beside it, as in kubectl; a relative one begins at `folder`.
    """
    context = _named(document, "contexts", document.get("current-context")).get("context") or {}
    user = _named(document, "users", context.get("user")).get("user") or {}
    if file := user.get("tokenFile"):
        configuration.refresh_api_key_hook = _renewal(folder / str(file))


def _named(document: Mapping[str, Any], part: str, name: object) -> Mapping[str, Any]:
    return next((each for each in document.get(part) or [] if each.get("name") == name), {})


def _renewal(path: Path) -> Callable[[Any], None]:
    """What the client calls before each request: it puts the token of this file into the configuration.

    A file that cannot be read is an OSError, and so an unreachable cluster: the last token would be refused.
    """

    def renew(configuration: Any) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {path.read_text().strip()}"

    return renew
