"""Where the generator reads from: a running API server. Read-only except for dry-run creates."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any, cast

import httpx
import yaml

from sandbox.api.meta.objects import Obj

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def _material(entry: Obj, key: str) -> str | None:
    """A file for inline data or a named file of a kubeconfig entry."""
    if entry.get(key):
        return str(entry[key])
    data = entry.get(f"{key}-data")
    if not data:
        return None
    with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(data))
    return file.name


class ApiSource:
    """A running API server, reached by a kubeconfig's current context."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        names = {
            kind: {entry["name"]: entry[kind] for entry in config[f"{kind}s"]}
            for kind in ("context", "cluster", "user")
        }
        context = names["context"][config["current-context"]]
        cluster, user = names["cluster"][context["cluster"]], names["user"][context["user"]]
        authority = _material(cluster, "certificate-authority")
        certificate, key = _material(user, "client-certificate"), _material(user, "client-key")
        headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        verify: Any = authority or True
        self._http = httpx.Client(
            base_url=cluster["server"],
            headers=headers,
            verify=verify,
            timeout=60,
            cert=(certificate, key) if certificate and key else None,
        )

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        """The JSON at a path."""
        answer = self._http.get(path, headers={"Accept": accept})
        answer.raise_for_status()
        return answer.json()

    def discovery(self) -> list[Obj]:
        """Aggregated discovery of every group."""
        groups = self.get("/api", accept=AGGREGATED)["items"] + self.get("/apis", accept=AGGREGATED)["items"]
        return cast("list[Obj]", groups)

    def openapi(self, group_version: str) -> dict[str, Obj]:
        """The schemas of one group and version."""
        place = "api/v1" if group_version == "v1" else f"apis/{group_version}"
        return cast("dict[str, Obj]", self.get(f"/openapi/v3/{place}")["components"]["schemas"])

    def definitions(self) -> list[Obj]:
        """Every installed CustomResourceDefinition."""
        return cast("list[Obj]", self.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"])

    def columns(self, path: str) -> list[Obj]:
        """Table columns of a collection."""
        return cast("list[Obj]", self.get(f"{path}?limit=1", accept=TABLE)["columnDefinitions"])

    def dry_run(self, path: str, body: Obj) -> Obj:
        """What the server would store for a body."""
        answer = self._http.post(f"{path}?dryRun=All&fieldManager=generate", json=body)
        if answer.status_code >= 400:
            raise ValueError(f"the probe for {path} was refused: {answer.text}")
        return cast("Obj", answer.json())

    def version(self) -> Obj:
        """/version."""
        return cast("Obj", self.get("/version"))
