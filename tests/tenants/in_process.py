"""A gateway onto the sandbox's API server in this process: real server-side apply, real refusals, no HTTP.

`watch` brings the mirror up to date as the watcher would, at the moment a test chooses.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Event, Lock
from typing import Any

from apps.cluster.errors import Conflict, Rejected, Unreachable
from apps.cluster.gateway import client
from apps.cluster.gateway.forwarding import Way
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.kinds import KINDS, WATCHED
from apps.cluster.objects.names import MANAGER
from apps.cluster.reconciling.services.sweep import Owner
from apps.cluster.specs import Body, Endpoint, Manifest, ObjectRef, Page, WatchEvent
from sandbox.api.auth.tokens import Tokens
from sandbox.api.auth.users import SYSTEM
from sandbox.api.cluster.simulated import Cluster as Simulated
from sandbox.api.http import logs
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import copy_of
from sandbox.api.registry.generic import Options
from sandbox.api.storage.store import Place

PAGE = client._PAGE
STARTED = datetime(2026, 11, 20, 9, tzinfo=UTC)


class InProcess:
    """What reconciles need of `apps.cluster.gateway.port.Gateway`; `calls` lists the writes that reached the
    server. Its clock stands at `start` until a test moves it.
    """

    def __init__(self, start: datetime = STARTED) -> None:
        self.simulated = Simulated.in_memory(start=start)
        self.client = self.simulated.client(manager=MANAGER)
        self.calls: list[tuple[str, ObjectRef]] = []
        self.tokens = Tokens(self.simulated)
        self.silent = False
        self._lock = Lock()

    def apply(self, manifest: Manifest, *, force: bool = False, dry_run: bool = False) -> Body:
        metadata = manifest["metadata"]
        ref = ObjectRef(manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        if dry_run:
            return self._rehearse(ref, manifest)
        answer: Body = self._call(
            "apply", ref, lambda: self.client.apply(resource(ref.kind), manifest, force=force)
        )
        return answer

    def delete(self, ref: ObjectRef, *, uid: str) -> bool:
        if self.get(ref) is None:
            return False
        try:
            self._call(
                "delete",
                ref,
                lambda: self.client.delete(resource(ref.kind), ref.name, ref.namespace, uid=uid),
            )
        except Conflict as conflict:
            # As the real client: another uid under this name is not what was meant.
            if "UID in precondition" in conflict.message:
                return False
            raise
        return True

    def merge(self, ref: ObjectRef, changes: Manifest, *, resource_version: str) -> Body:
        bound = {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": resource_version}}
        answer: Body = self._call(
            "merge",
            ref,
            lambda: self.client.patch(resource(ref.kind), ref.name, bound, namespace=ref.namespace),
        )
        return answer

    def get(self, ref: ObjectRef) -> Body | None:
        found: Body | None = copy_of(self.client.get(resource(ref.kind), ref.name, ref.namespace))
        return found

    def look(self, ref: ObjectRef) -> Body | None:
        return self.get(ref)

    def list(self, kind: str, *, label_selector: str = "", namespace: str = "") -> tuple[list[Body], str]:
        found = self.client.list(resource(kind), namespace, labels=label_selector)
        return copy_of(found), ""

    def page(self, kind: str, *, label_selector: str = "", namespace: str = "", going_on: str = "") -> Page:
        if self.silent:
            raise Unreachable("The cluster does not answer.")
        found = self.client.list(resource(kind), namespace, labels=label_selector)
        start, version = int(going_on or 0), str(self.simulated.store.version)
        end = start + PAGE
        return Page(copy_of(found[start:end]), version, str(end) if end < len(found) else "")

    def create_token(self, namespace: str, account: str, *, seconds: int) -> tuple[str, datetime]:
        found = self.client.get("serviceaccounts", account, namespace)
        if found is None:
            raise Rejected(404, "NotFound", f'serviceaccounts "{account}" not found')
        token, ends = self.tokens.issue(found, {"expirationSeconds": seconds})
        return token, datetime.fromisoformat(ends)

    def endpoint(self) -> Endpoint:
        return Endpoint("https://in-process.example", b"a certificate")

    def watch(self, *_: Any, **__: Any) -> "Quiet":
        return Quiet()

    def pod_log(self, *args: Any, **options: Any) -> str:
        raise NotImplementedError

    def read_log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, **_: float
    ) -> Iterator[bytes]:
        found = self.client.get("pods", pod, namespace)
        if found is None:
            raise Rejected(404, "NotFound", f'pods "{pod}" not found')
        asked = logs.Wanted(found, container, STARTED, tail_lines, None, False, False, False)

        async def read() -> bytes:
            return b"".join([chunk async for chunk in logs.stream(self.simulated, asked)])

        yield asyncio.run(read())

    def stream_log(self, *args: Any, **options: Any) -> AsyncGenerator[Sequence[str], None]:
        raise NotImplementedError

    def port_forward(self, *args: Any, **options: Any) -> Way:
        raise NotImplementedError

    def server_version(self) -> str:
        return "v1.36.3"

    def api_resources(self, api_version: str) -> frozenset[str]:
        return frozenset(info.plural for info in KINDS.values() if info.api_version == api_version)

    def mirror(self, cluster: Cluster, *, now: datetime = STARTED) -> set[Owner]:
        """What the watcher does: every watched kind as it is now. Answers whose objects changed."""
        owners: set[Owner] = set()
        known = set(MirrorObject.objects.filter(cluster=cluster, gone_at=None).values_list("kind", flat=True))
        for kind in WATCHED:
            items, _ = self.list(kind)
            if not items and kind not in known:
                continue
            seen = mirror_table.record_seen(cluster, [Sighting(kind, item) for item in items], now=now)
            version = self.simulated.store.version
            gone = mirror_table.bury_absent(cluster, kind, items, resource_version=version, now=now)
            owners |= {*seen.owners, *gone.owners}
        return owners

    def _rehearse(self, ref: ObjectRef, manifest: Manifest) -> Body:
        """What a forced apply would leave; nothing is stored."""
        try:
            kind = self.simulated.kinds.named(resource(ref.kind))
        except KeyError as absent:
            words = "the server could not find the requested resource"
            raise Rejected(HTTPStatus.NOT_FOUND, "NotFound", words) from absent
        options = Options(SYSTEM, MANAGER, force=True, dry_run=True, trusted=True)
        try:
            answer = self.simulated.registry.apply(
                kind, Place(ref.namespace, ref.name), copy_of(manifest), options
            )
        except ApiError as problem:
            raise Rejected(problem.code, problem.reason, problem.message) from problem
        would_be: Body = copy_of(answer[0])
        return would_be

    def _call(self, verb: str, ref: ObjectRef, call: Any) -> Any:
        if self.silent:
            raise Unreachable("The cluster does not answer.")
        with self._lock:
            self.calls.append((verb, ref))
            try:
                return copy_of(call())
            except ApiError as problem:
                managers = re.findall(r'conflicts? with "([^"]+)"', problem.message)
                if problem.code == 409:
                    raise Conflict(problem.message, managers=managers) from problem
                raise Rejected(problem.code, problem.reason, problem.message) from problem


class Quiet:
    """A watch that tells nothing until it is closed: tests bring the mirror up to date themselves."""

    def __init__(self) -> None:
        self._closed = Event()

    def __iter__(self) -> Iterator[WatchEvent]:
        self._closed.wait()
        return iter(())

    def close(self) -> None:
        self._closed.set()


def resource(kind: str) -> str:
    """Kubectl's name of a kind: `jobs.batch`."""
    info = KINDS[kind]
    group = info.api_version.rpartition("/")[0]
    return f"{info.plural}.{group}" if group else info.plural
