"""The log endpoint of an API server: each follower gets its first line at once and later lines when told to.

Plain sockets: what is measured is the product, not this.
"""

import asyncio
import threading
from collections.abc import Callable

from apps.cluster.models import Cluster, MirrorObject
from apps.workloads.models import Workload
from tests.endpoint import Endpoint
from tests.patience import patient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


class PodLogs(Endpoint):
    """`silent`: not even the head of an answer comes."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.followers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> asyncio.Server:
        """See `Endpoint`."""
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)

    def write(self, text: bytes) -> None:
        """One more line, or part of one, for every follower."""

        async def all_of_them() -> None:
            for writer in list(self.followers):
                writer.write(_chunk(text))

        self.portal.call(all_of_them)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.followers.add(writer)
        try:
            if not self.silent:
                writer.write(HEAD + _chunk(b"first\n"))
            await reader.read()
        except ConnectionError:
            pass  # a follower that goes away is what these tests are about
        finally:
            self.followers.discard(writer)
            writer.close()


class Said:
    """A gateway as far as the last lines of a log need it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked = ""
        """The container whose lines were asked for last."""

    def pod_log(self, *_: str, container: str, tail_lines: int, **__: object) -> str:
        self.asked = container
        return "\n".join(self.lines[-tail_lines:])


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
    for _ in range(int(patient(seconds) / 0.02)):
        if is_so():
            return
        over.wait(0.02)
    raise TimeoutError(f"waited {seconds} s for {what}")
