"""The edge as a real process has it: chunked bodies, uploads that are never read, callers that dribble."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.patience import patient, until
from tests.ports import free_port, listens

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024**2
SEED = "import tests.portal.hurried as hurried; print(hurried.seed())"


@dataclass
class Web:
    """A web process on its own database, its log, and a platform engineer's token."""

    port: int
    pid: int
    token: str
    log: Path

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request as http.client sends it: an iterable body is chunked."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patient(30))
        wanted = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}", **headers}
        connection.request(method, path, body=body, headers={k: v for k, v in wanted.items() if v})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text

    def written(self) -> int:
        """Bytes that the process wrote so far, to files and sockets."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("wchar")).split()[1])


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    home = tmp_path_factory.mktemp("edge")
    (home / "static-root").mkdir()
    env = {
        **os.environ, "ALLOTMENT_HOME": str(home), "ALLOTMENT_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "ALLOTMENT_DATABASE_URL": "",
    }  # fmt: skip
    plain: dict[str, Any] = {"cwd": ROOT, "env": env}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True, **plain)
    token = subprocess.run([sys.executable, "-c", SEED], check=True, capture_output=True, text=True, **plain)
    port, where = free_port(), "tests.portal.hurried"
    command = ["uvicorn", f"{where}:application", "--http", f"{where}:Protocol", "--lifespan", "off"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port), "--log-level", "warning"],
            stderr=log, stdout=log, **plain,
        )  # fmt: skip
        try:
            until(lambda: listens(port), "the web process")
            yield Web(port, process.pid, token.stdout.split()[-1], home / "log")
        finally:
            process.kill()
            process.wait(10)


def chunks(body: Any) -> Iterator[bytes]:
    """A body in pieces, as a client sends it that does not know the length."""
    text = json.dumps(body).encode()
    yield from (text[:7], text[7:])


def test_a_chunked_patch_changes_and_a_chunked_post_makes(web: Web) -> None:
    path = "/api/v1/departments/research"
    status, shown = web.ask("PATCH", path, chunks({"name": "Applied Research"}), **{"If-Match": "*"})
    assert (status, shown["name"]) == (200, "Applied Research")
    assert web.ask("GET", path)[1]["name"] == "Applied Research"
    assert web.ask("POST", "/api/v1/tokens", chunks({"name": "chunked", "scopes": []}))[0] == 201


def test_a_chunked_body_is_bounded_as_any(web: Web) -> None:
    status, shown = web.ask("POST", "/api/v1/tokens", (b" " * 65536 for _ in range(17)))
    assert (status, shown["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/api/v1/workloads", "", 401),
        ("/api/v1/workloads", "Authorization: Bearer {token}\r\n", 413),
        ("/sign-in/", "", 413),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_200_mib_are_refused_and_never_kept(
    web: Web, path: str, headers: str, expected: int, *, is_chunked: bool
) -> None:
    before = web.written()
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {200 * MIB}"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n"
    with socket.create_connection(("127.0.0.1", web.port)) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        caller.sendall((head + headers.format(token=web.token) + "\r\n").encode())
        sent = poured(caller, b"10000\r\n" + b"x" * 65536 + b"\r\n" if is_chunked else b"x" * 65536)
        status = caller.recv(65536)
    # What the two kernels buffered counts as sent, though nobody read it.
    assert sent < 16 * MIB
    assert status.startswith(f"HTTP/1.1 {expected} ".encode())
    assert web.written() - before < MIB


def poured(caller: socket.socket, piece: bytes) -> int:
    """Send until the other end answers or hangs up; how much went."""
    sent = 0
    with contextlib.suppress(ConnectionError, BlockingIOError):
        while sent < 200 * MIB:
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if caller.recv(1, socket.MSG_PEEK):
                    break
            caller.setblocking(True)
            caller.sendall(piece)
            sent += len(piece)
    caller.setblocking(True)
    return sent


@pytest.mark.parametrize("path", ["/api/v1/tokens", "/sign-in/"])
def test_a_body_that_dribbles_is_cut_off(web: Web, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token}\r\n"
    with socket.create_connection(("127.0.0.1", web.port), timeout=patient(20)) as caller:
        caller.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + b"{")
        assert caller.recv(65536).startswith(b"HTTP/1.1 408 ")
        while caller.recv(65536):
            pass  # until the connection is closed


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_a_head_that_dribbles_is_cut_off(web: Web, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", web.port), timeout=patient(20)) as caller:
        caller.sendall(said)
        assert caller.recv(65536) == b""


def test_a_connection_that_is_kept_serves_more_than_one_head(web: Web) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=patient(20))
    for pause in (2.5, 0):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        time.sleep(pause)


def test_an_upgrade_is_refused_without_a_word_in_the_log(web: Web) -> None:
    before = web.log.read_text()
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for path in ("/", "/api/v1/workloads", "/nowhere"):
        with socket.create_connection(("127.0.0.1", web.port), timeout=patient(20)) as caller:
            caller.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}\r\n".encode())
            assert caller.recv(65536).startswith(b"HTTP/1.1 403 ")
    assert web.log.read_text() == before
