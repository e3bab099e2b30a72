"""/metrics and /healthz: the last snapshot to everybody, old ones to nobody; slow clients hold up no one."""

import asyncio
import socket as sockets
from collections.abc import Awaitable, Callable

import pytest

from agent.nvml import Process
from agent.serving import Pages, Server
from agent.snapshot import Gpu, Row, Snapshot

GPU = Gpu(0, 0, "GPU-1", "00000000:18:00.0", 'A "model"\nof two lines')


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def snapshot(taken: float, rows: int = 1) -> Snapshot:
    row = Row(GPU, None, {"DCGM_FI_DEV_GPU_UTIL": 7.0}, (Process(1, None),))
    return Snapshot(taken, "570.86.15", "node-1", (row,) * rows)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pages(clock: Clock) -> Pages:
    return Pages(15.0, clock)


def status(pages: Pages, path: str, method: str = "GET") -> int:
    return pages.answer(method, path)[0].value


def test_before_the_first_collection_there_is_nothing_but_health(pages: Pages) -> None:
    assert [status(pages, "/metrics"), status(pages, "/healthz")] == [503, 200]


def test_an_old_snapshot_is_not_served_as_if_it_were_new(pages: Pages, clock: Clock) -> None:
    pages.publish(snapshot(clock.now))
    clock.now += 15
    assert [status(pages, "/metrics"), status(pages, "/healthz")] == [200, 200]
    clock.now += 1
    assert [status(pages, "/metrics"), status(pages, "/healthz")] == [503, 503]


def test_a_gpu_s_name_cannot_break_out_of_its_label(pages: Pages, clock: Clock) -> None:
    pages.publish(snapshot(clock.now))
    body = pages.answer("GET", "/metrics")[2].decode()
    assert 'modelName="A \\"model\\"\\nof two lines"' in body


def test_other_paths_and_methods_are_refused(pages: Pages) -> None:
    assert [status(pages, "/"), status(pages, "/../etc"), status(pages, "/metrics", "POST")] == [
        404,
        404,
        405,
    ]


def run(pages: Pages, scene: Callable[[str, int], Awaitable[None]], **times: float) -> None:
    async def whole() -> None:
        server = await Server(pages, **times).listen("127.0.0.1", 0)
        async with server:
            await asyncio.wait_for(scene(*server.sockets[0].getsockname()), 20)

    asyncio.run(whole())


async def get(host: str, port: int, request: bytes = b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    found = await reader.read()
    writer.close()
    return found


def test_an_answer_is_whole_and_closes_the_connection(pages: Pages, clock: Clock) -> None:
    pages.publish(snapshot(clock.now))

    async def scene(host: str, port: int) -> None:
        head, _, body = (await get(host, port)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
        assert f"Content-Length: {len(body)}".encode() in head
        assert body.endswith(b" 7\n")
        without = await get(host, port, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert without.endswith(b"\r\n\r\n")
        assert (await get(host, port, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")

    run(pages, scene)


def test_clients_that_do_not_ask_or_do_not_read_hold_up_nobody(pages: Pages, clock: Clock) -> None:
    """40 silent ones, and 10 that ask for far more than a socket buffers and never read."""
    pages.publish(snapshot(clock.now, rows=50_000))
    assert len(pages.answer("GET", "/metrics")[2]) > 8_000_000
    seconds = 2.0

    async def scene(host: str, port: int) -> None:
        silent = [sockets.create_connection((host, port)) for _ in range(40)]
        greedy = [sockets.create_connection((host, port)) for _ in range(10)]
        for client in greedy:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        began = asyncio.get_running_loop().time()
        health = await get(host, port, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 200")
        assert asyncio.get_running_loop().time() - began < seconds
        await asyncio.sleep(seconds)
        assert [await asyncio.to_thread(_ended, client) for client in silent] == [True] * 40
        for client in (*silent, *greedy):
            client.close()

    run(pages, scene, read=seconds, write=seconds)


def test_more_clients_than_there_is_room_for_are_turned_away(pages: Pages) -> None:
    async def scene(host: str, port: int) -> None:
        waiting = [await asyncio.open_connection(host, port) for _ in range(64)]
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionError):
            await get(host, port)
        for _, writer in waiting:
            writer.close()
        await asyncio.sleep(0.2)
        assert (await get(host, port)).startswith(b"HTTP/1.1 503")

    run(pages, scene)


def _ended(client: sockets.socket) -> bool:
    client.settimeout(1.0)
    return client.recv(1) == b""
