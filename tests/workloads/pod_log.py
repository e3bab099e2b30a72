"""The log endpoint of an API server: each follower gets its first line at once and later lines when told to.

Plain sockets: what is measured is the product, not this.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Self

import yaml

from apps.cluster.models import Cluster, MirrorObject
from apps.workloads.models import Workload

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


class PodLogs:
    """Serves in a thread of its own while it is entered; `silent`: not even the head of an answer comes."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.followers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server: Any = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        # In the loop's own thread: a connection that ends at the same moment closes the server too.
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def kubeconfig(self) -> str:
        """The way here."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "t"}}
        document = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document})

    def write(self, text: bytes) -> None:
        """One more line, or part of one, for every follower."""

        async def all_of_them() -> None:
            for writer in list(self.followers):
                writer.write(_chunk(text))

        self._run(all_of_them())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.followers.add(writer)
        try:
            if not self.silent:
                writer.write(HEAD + _chunk(b"first\n"))
            await reader.read()
        except ConnectionError:
            pass
        finally:
            self.followers.discard(writer)
            writer.close()


def _chunk(text: bytes) -> bytes:
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


def with_pod(row: Workload, kubeconfig: str) -> None:
    """The workload has a pod on a node of a cluster that this kubeconfig leads to."""
    MirrorObject.objects.create(
        cluster=row.cluster,
        kind="Pod",
        namespace=row.tenant.object_name,
        name="pod-0",
        uid=str(row.pk),
        owner_kind="workload",
        owner_id=str(row.pk),
        body={"spec": {"nodeName": "n"}},
    )
    Cluster.objects.filter(pk=row.cluster_id).update(kubeconfig_path=kubeconfig)


def until(is_so: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait for it, in the thread that asks."""
    over = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if is_so():
            return
        over.wait(0.02)
    raise TimeoutError(f"waited {seconds} s for {what}")
