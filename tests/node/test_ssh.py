"""SSH into containers that run: OpenSSH's own `ssh` and `sftp`, the real kubelet's exec and port-forward."""

import http.client
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.factories import notebook_body
from tests.node.asking import NOTEBOOK
from tests.patience import patient, until
from tests.ports import free_port, listens
from tests.story.by_rest import SLICE, act, ask, reach
from tests.story.by_ssh import Machine, allow, set_up
from tests.story.conftest import Installation

pytestmark = [pytest.mark.node, pytest.mark.exhaustive, pytest.mark.timeout(600)]
HOST = "nb-ssh.vision.allotment"
MB = 1024 * 1024
SERVES = "python3 -m http.server 8123 --bind 127.0.0.1"


@pytest.fixture
def rosa(on_nodes: Installation) -> Iterator[httpx.Client]:
    with on_nodes.client("platform") as petra:
        allow(petra, "vision", is_on=True)
    with on_nodes.client("researcher") as client:
        yield client


@pytest.fixture
def notebook(rosa: httpx.Client) -> dict[str, Any]:
    """Rosa's JupyterLab, which runs in a container."""
    body = notebook_body(SLICE, image=NOTEBOOK)
    # CPU and memory as they come with the slice: this node is a small machine.
    made = ask(rosa, "nb-ssh", {key: value for key, value in body.items() if key not in ("cpu", "memory")})
    return reach(rosa, made, "Running", 120)


@pytest.fixture
def machine(rosa: httpx.Client, notebook: dict[str, Any], tmp_path: Path) -> Machine:
    assert notebook["status"]["phase"] == "Running"
    return set_up(rosa, tmp_path / "ssh")


@contextmanager
def begun(machine: Machine, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = machine.begun(*words)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def page_at(port: int) -> str:
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=patient(20))
    wire.request("GET", "/")
    return wire.getresponse().read().decode()


def commands(machine: Machine, device: str) -> None:
    """Input, output, errors, exit code; the device."""
    ran = machine.run(HOST, "cat; echo bad >&2; exit 7", sent=b"through")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, b"through", b"bad\n")
    seen = machine.run(HOST, "echo $NVIDIA_VISIBLE_DEVICES; id -u; pwd").stdout.decode().split()
    assert seen == [device, "1000", "/home/jovyan"]
    # As VS Code begins: no terminal, a shell that reads what to do.
    script = machine.run("-T", HOST, sent=b"echo $((6*7))\nexit 3\n")
    assert (script.returncode, script.stdout) == (3, b"42\n")


def terminal(machine: Machine) -> None:
    """A login shell of the terminal's own kind and size, also after that has changed."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (40, 100))
    command, env = machine.command(HOST), {**os.environ, "TERM": "xterm-256color"}
    ssh = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    seen = b""

    def says(words: bytes) -> bool:
        nonlocal seen
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 65536)
        return words in seen

    until(lambda: says(b"$ "), "the prompt")
    os.write(ours, b"echo $TERM $0; stty size\r")
    until(lambda: says(b"xterm-256color /bin/bash\r\n40 100\r\n"), "its kind and size", told=lambda: seen)
    termios.tcsetwinsize(ours, (50, 120))
    ssh.send_signal(signal.SIGWINCH)
    os.write(ours, b"sleep 0.5; stty size; sleep 60\r")
    until(lambda: says(b"50 120"), "its size after the change", told=lambda: seen)
    os.write(ours, b"\x03")
    os.write(ours, b"exit 4\r")
    assert ssh.wait(patient(20)) == 4, seen
    os.close(ours)


def files(machine: Machine, folder: Path) -> None:
    """32 MiB up and down, by a pipe and by sftp."""
    big = folder / "big"
    big.write_bytes(bytes(range(256)) * (32 * MB // 256))
    sent = machine.run(HOST, "cat > big", sent=big.read_bytes())
    assert sent.returncode == 0, sent.stderr
    assert machine.run(HOST, "cat big").stdout == big.read_bytes()
    batch = f"get big {folder}/back\nput {folder}/back again\nls -l again\n"
    told = subprocess.run(
        ["sftp", "-F", str(machine.folder / "config"), "-b", "-", HOST],
        input=batch.encode(), capture_output=True, check=False, timeout=patient(60),
    )  # fmt: skip
    assert told.returncode == 0, told
    assert (folder / "back").read_bytes() == big.read_bytes()
    assert str(32 * MB).encode() in told.stdout


def ports(machine: Machine) -> None:
    """A port of the container's own localhost, by -L and as VS Code does by -D; nothing beyond it."""
    local, proxy = free_port(), free_port()
    with (
        begun(machine, HOST, SERVES),
        begun(machine, "-N", "-L", f"{local}:localhost:8123", "-D", str(proxy), HOST),
    ):
        until(lambda: listens(local), "ssh to listen")
        until(lambda: machine.run(HOST, "curl -s localhost:8123 >/dev/null").returncode == 0, "the server")
        assert "Directory listing" in page_at(local)
        through = ["curl", "-s", "--max-time", "20", "--proxy", f"socks5h://127.0.0.1:{proxy}"]
        inside = subprocess.run([*through, "http://127.0.0.1:8123/"], capture_output=True, check=False)
        beyond = subprocess.run([*through, "http://example.org/"], capture_output=True, check=False)
        assert b"Directory listing" in inside.stdout
        assert beyond.returncode != 0


def test_a_person_works_in_a_container_by_ssh(
    rosa: httpx.Client,
    notebook: dict[str, Any],
    machine: Machine,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    began = time.monotonic()
    assert machine.run(HOST, "true").returncode == 0
    record_property("ssh HOST true, seconds", round(time.monotonic() - began, 2))
    commands(machine, notebook["status"]["placement"][0]["devices"][0]["id"])
    terminal(machine)
    files(machine, tmp_path)
    ports(machine)
    with begun(machine, HOST, "cat") as open_:
        assert open_.stdin
        assert open_.stdout
        open_.stdin.write(b"hello\n")
        open_.stdin.flush()
        assert open_.stdout.readline() == b"hello\n"
        act(rosa, notebook, "stop")
        at = time.monotonic()
        # Cut by the door, or ended with its container (SIGKILL), whichever is heard of first.
        assert open_.wait(patient(20)) in (255, 137)
        record_property("stopped to cut, seconds", round(time.monotonic() - at, 2))
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
