"""A kubelet's pod-resources service: a real gRPC server on a unix socket, messages written byte by byte."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc

Answer = bytes | Exception


class Lister:
    """What the service answers; `asked` counts the questions."""

    def __init__(self, answer: Answer = b"") -> None:
        self.answer = answer
        self.asked = 0

    def list(self, question: bytes, context: grpc.ServicerContext) -> bytes:
        assert question == b""
        self.asked += 1
        if isinstance(self.answer, Exception):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(self.answer))
        assert isinstance(self.answer, bytes)
        return self.answer


@contextmanager
def serving(socket: Path, lister: Lister) -> Iterator[Lister]:
    """Serve until the end of the block; the socket is gone afterwards."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    handler = grpc.unary_unary_rpc_method_handler(lister.list)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),)
    )
    assert server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield lister
    finally:
        server.stop(None).wait()
        socket.unlink(missing_ok=True)


def answer(*pods: bytes) -> bytes:
    return b"".join(part(1, pod) for pod in pods)


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    return part(1, name) + part(2, namespace) + b"".join(part(3, found) for found in containers)


def container(name: str, *inner: bytes) -> bytes:
    """With the fields the agent has no use for: cpu ids (packed numbers) and a size as a bare number."""
    return part(1, name) + b"".join(inner) + part(3, b"\x01\x02\xac\x02") + number(4, 300)


def devices(resource: str, *ids: str) -> bytes:
    """Field 2 of a container, with the topology that the kubelet sends along."""
    topology = part(3, part(1, number(1, 1)))
    return part(2, part(1, resource) + b"".join(part(2, found) for found in ids) + topology)


def claim(name: str, namespace: str, device: str, *, driver: str = "gpu.nvidia.com") -> bytes:
    """Field 5 of a container: one claim with one device of the node's pool."""
    cdi = part(1, part(1, f"k8s.{driver}/claim=uid-{device}"))
    resource = cdi + part(2, driver) + part(3, "node-1") + part(4, device) + part(5, "share")
    return part(5, part(2, name) + part(3, namespace) + part(4, resource))


def part(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
