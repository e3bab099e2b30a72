"""A kubeconfig, and what registers a cluster by it."""

import socket
from typing import Any

import pytest
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


def lead_astray(monkeypatch: pytest.MonkeyPatch, port: int) -> str:
    """A server whose name leads to this machine; only that name, as other clients run in the process too."""
    name = "rebound.example.org"
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    look_up = socket.getaddrinfo

    def led(host: Any, *args: Any, **kwargs: Any) -> Any:
        return here if host in (name, name.encode()) else look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", led)
    return f"https://{name}:{port}"
