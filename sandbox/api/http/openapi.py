"""OpenAPI v3 per group version: enough for kubectl's validation and explain.

Paths carry only what kubectl looks up.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from sandbox.api.http.discovery import versions
from sandbox.api.http.requests import Reply, Request, json_reply
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj
from sandbox.kinds.generate import reachable
from sandbox.kinds.table import Kind, load

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

_PREFIX = "#/components/schemas/"
_WRITES = ("dryRun", "fieldManager", "fieldValidation")


def _text(number: int, text: str) -> bytes:
    """A short protobuf text field."""
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def _gvk(kind: Kind) -> Obj:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _name(kind: Kind) -> str:
    if kind.native:
        return kind.schema_name
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


_SPEC_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_PATCH = {"$ref": _PREFIX + "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}


def _operation(kind: Kind, action: str, reference: Obj) -> Obj:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in (*_WRITES, *(("force",) if action == "patch" else ()))
    ]
    content = {"application/json": {"schema": reference}}
    operation: Obj = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if action == "patch":
        forms = [form for form in _PATCHES if kind.native or "strategic" not in form]
        operation["requestBody"] = {"content": {form: {"schema": _PATCH} for form in forms}, "required": True}
    return operation


def _paths(kind: Kind) -> dict[str, Obj]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{scope}/{kind.plural}"
    reference: Obj = {"$ref": _PREFIX + _name(kind)}
    found: dict[str, Obj] = {
        collection: {"get": _operation(kind, "list", reference), "post": _operation(kind, "post", reference)}
    }
    if kind.stored:
        found[collection + "/{name}"] = {
            action: _operation(kind, action, reference) for action in ("get", "put", "patch", "delete")
        }
    return found


def _custom_schema(kind: Kind) -> Obj:
    raw = dict(kind.schema.raw)
    metadata = {"allOf": [raw["properties"]["metadata"]]}
    return {
        **raw,
        "properties": {**raw["properties"], "metadata": metadata},
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }


class Documents:
    """The documents, built on demand and kept until the served kinds change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: dict[str, bytes] = {}
        self._revision = -1

    def _places(self) -> dict[str, list[Kind]]:
        if self._revision != self._cluster.kinds.revision:
            self._kept.clear()
            self._revision = self._cluster.kinds.revision
        return {
            f"apis/{group}/{version}" if group else f"api/{version}": kinds
            for group, found in versions(self._cluster).items()
            for version, kinds in found.items()
            if kinds
        }

    def _document(self, place: str, kinds: list[Kind]) -> bytes:
        kept = self._kept.get(place)
        if kept is None:
            schemas: dict[str, Any] = load("schemas")
            own = {_name(kind): _custom_schema(kind) for kind in kinds if not kind.native}
            names = [_PATCH["$ref"].removeprefix(_PREFIX), *(_name(kind) for kind in kinds)]
            document = {
                "openapi": "3.0.0",
                "info": {"title": "Kubernetes", "version": self._cluster.kinds.version["gitVersion"]},
                "paths": {path: item for kind in kinds for path, item in _paths(kind).items()},
                "components": {"schemas": reachable(names, {**schemas, **own})},
            }
            kept = self._kept[place] = orjson.dumps(document)
        return kept

    def answer(self, request: Request) -> Reply | None:
        """/openapi/v3 and below, or None."""
        if request.path.rstrip("/") == "/openapi/v3":
            paths = {
                place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={self._hash(place, kinds)}"}
                for place, kinds in sorted(self._places().items())
            }
            return json_reply({"paths": paths})
        if request.path.rstrip("/") == "/openapi/v2":
            return self._second_version(request)
        if not request.path.startswith("/openapi/v3/"):
            return None
        place = request.path.removeprefix("/openapi/v3/").strip("/")
        kinds = self._places().get(place)
        if kinds is None:
            raise errors.path_not_found()
        return Reply(200, self._document(place, kinds))

    def _second_version(self, request: Request) -> Reply:
        """The old document without content: kubectl looks there for kinds that version 3 does not know."""
        version = self._cluster.kinds.version["gitVersion"]
        if not request.accepts("protobuf"):
            return json_reply(
                {"swagger": "2.0", "info": {"title": "Kubernetes", "version": version}, "paths": {}}
            )
        info = b"".join(_text(number, text) for number, text in ((1, "Kubernetes"), (2, version)))
        return Reply(200, _text(1, "2.0") + b"\x12" + bytes([len(info)]) + info, media=_SPEC_V2)

    @staticmethod
    def _hash(place: str, kinds: list[Kind]) -> str:
        text = place + "".join(
            sorted(
                f"{kind.key}{(kind.definition or {}).get('metadata', {}).get('generation', '')}"
                for kind in kinds
            )
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32].upper()
