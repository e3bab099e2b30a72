"""A declared double of the gateway: an API server small enough to reason about, for tests that need no
server.

It keeps objects, versions, uids and field managers the way server-side apply does for plain maps; what it
does on purpose not have: schemas, defaults, admission, finalizers. The real behaviour is tested on the
plane.
"""

# ruff: noqa: ARG002 - the parameters are the Protocol's

import copy
import itertools
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import datetime
from typing import Any

from apps.cluster.errors import Conflict
from apps.cluster.gateway.forwarding import Way
from apps.cluster.gateway.port import WatchStream
from apps.cluster.objects.names import MANAGER
from apps.cluster.specs import Body, Endpoint, Manifest, ObjectRef, Page, ref_of


class FakeCluster:
    """Implements `Gateway`. `fail` maps an object to the error its next apply or delete raises."""

    def __init__(self) -> None:
        self.objects: dict[ObjectRef, Body] = {}
        self.calls: list[tuple[str, ObjectRef]] = []
        self.fail: dict[ObjectRef, Exception] = {}
        self.silent: Exception | None = None
        self.log: Sequence[bytes] | Exception = ()
        self.logs_read = 0
        self._versions = itertools.count(100)

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Body:
        ref = ref_of(manifest)
        self._called("force" if force else "apply", ref)
        live = self.objects.get(ref)
        thieves = live["_thieves"] if live else []
        if thieves and not force:
            raise Conflict(f'Apply failed with 1 conflict: conflict with "{thieves[0]}"', managers=thieves)
        body = copy.deepcopy(manifest)
        uid = live["metadata"]["uid"] if live else f"uid-{next(self._versions)}"
        body["metadata"] |= {
            "uid": uid,
            "resourceVersion": str(next(self._versions)),
            "managedFields": [_mine(manifest)],
        }
        body["metadata"]["creationTimestamp"] = "2026-11-20T09:00:00Z"
        body["_thieves"] = []
        if live and "status" in live:
            body["status"] = live["status"]
        if not dry_run:
            self.objects[ref] = body
        return copy.deepcopy(body)

    def merge(self, ref: ObjectRef, changes: Manifest, *, resource_version: str) -> Body:
        raise NotImplementedError

    def steal(self, ref: ObjectRef, path: str, value: Any, manager: str = "kubectl-edit") -> Body:
        """Somebody changes a field of ours: it gets the value, and we lose it."""
        body = self.objects[ref]
        head, leaf = path.split(".")
        body[head][leaf] = value
        body["metadata"]["managedFields"][0]["fieldsV1"][f"f:{head}"].pop(f"f:{leaf}", None)
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        body["_thieves"] = [manager]
        return copy.deepcopy(body)

    def get(self, ref: ObjectRef) -> Body | None:
        self._called("get", ref)
        return copy.deepcopy(self.objects.get(ref))

    def look(self, ref: ObjectRef) -> Body | None:
        return self.get(ref)

    def delete(self, ref: ObjectRef, *, uid: str) -> bool:
        self._called("delete", ref)
        live = self.objects.get(ref)
        if live is None or live["metadata"]["uid"] != uid:
            return False
        del self.objects[ref]
        return True

    def list(self, kind: str, *, label_selector: str = "", namespace: str = "") -> tuple[list[Body], str]:
        found = [copy.deepcopy(body) for ref, body in self.objects.items() if ref.kind == kind]
        return found, str(next(self._versions))

    def page(self, kind: str, *, label_selector: str = "", namespace: str = "", going_on: str = "") -> Page:
        return Page(*self.list(kind))

    def watch(
        self, kind: str, resource_version: str, timeout_seconds: int, *, label_selector: str = ""
    ) -> WatchStream:
        raise NotImplementedError

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
        return ""

    def read_log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, seconds: float
    ) -> Iterator[bytes]:
        if isinstance(self.log, Exception):
            raise self.log
        self.logs_read += 1
        yield from self.log

    def stream_log(
        self, namespace: str, pod: str, *, container: str = "", tail_lines: int = 0
    ) -> AsyncGenerator[Sequence[str], None]:
        raise NotImplementedError

    def port_forward(self, namespace: str, pod: str, port: int) -> Way:
        raise NotImplementedError

    def create_token(self, namespace: str, account: str, *, seconds: int) -> tuple[str, datetime]:
        raise NotImplementedError

    def endpoint(self) -> Endpoint:
        raise NotImplementedError

    def server_version(self) -> str:
        return "v1.36.3"

    def api_resources(self, api_version: str) -> frozenset[str]:
        return frozenset()

    def _called(self, verb: str, ref: ObjectRef) -> None:
        self.calls.append((verb, ref))
        if self.silent:
            raise self.silent
        if ref in self.fail:
            raise self.fail.pop(ref)


def _mine(manifest: Manifest) -> Body:
    parts = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    fields: dict[str, Any] = {
        f"f:{head}": {f"f:{leaf}": {} for leaf in value} for head, value in parts.items()
    }
    labels: dict[str, Any] = {f"f:{key}": {} for key in manifest["metadata"].get("labels", {})}
    fields["f:metadata"] = {"f:labels": labels}
    return {"manager": MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
