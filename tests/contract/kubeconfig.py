"""Reads the one thing the suite is given, a kubeconfig, and opens HTTP with it. Knows no server behind it."""

from __future__ import annotations

import ssl
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """An API server and the administrator's way in."""

    kubeconfig: Path
    server: str
    token: str
    authority: str | None

    def open(self, token: str | None = None) -> httpx.Client:
        """A client for the administrator, or for whoever holds `token`; an empty one is anonymous."""
        bearer = self.token if token is None else token
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        verify: Any = ssl.create_default_context(cadata=self.authority) if self.authority else False
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
        return httpx.Client(
            base_url=self.server, headers=headers, verify=verify, timeout=_SECONDS, limits=limits
        )


def read(path: Path) -> Target:
    """The current context of a kubeconfig with a bearer token; certificates in the file or beside it."""
    document = yaml.safe_load(path.read_text())
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    token = user.get("token") or Path(user["tokenFile"]).read_text().strip()
    return Target(path, cluster["server"], token, _authority(cluster))


def _authority(cluster: dict[str, Any]) -> str | None:
    if "certificate-authority-data" in cluster:
        return b64decode(cluster["certificate-authority-data"]).decode()
    if "certificate-authority" in cluster:
        return Path(cluster["certificate-authority"]).read_text()
    return None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
