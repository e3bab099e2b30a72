"""A kubeconfig, and what registers a cluster by it."""

from typing import Any

import yaml

CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "very-secret"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


def body(config: Any = None, **extra: Any) -> dict[str, Any]:
    text = yaml.safe_dump(config or CONFIG)
    return {"slug": "south", "name": "South", "spec": {"kubeconfig": text}, **extra}
