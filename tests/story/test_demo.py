"""`make demo` as a command: what it prints, what it refuses, what it leaves behind."""

import json
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.patience import patient, until
from tests.ports import free_port
from tests.story.conftest import Installation, start, stop, wait_ready

pytestmark = [pytest.mark.plane, pytest.mark.timeout(200)]


def children_of(pid: int) -> set[int]:
    """The process groups that a supervisor started, read off /proc."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found |= {int(folder.name)} | children_of(int(folder.name))
    return found


def test_the_tokens_are_for_their_owner_only_and_work(installation: Installation) -> None:
    path = installation.home / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads(path.read_text())) == {"researcher", "lead", "platform"}
    with installation.client("platform") as petra:
        assert petra.get("/me").json()["username"] == "platform"
        slugs = {offer["slug"] for offer in petra.get("/offers").json()["items"]}
    assert slugs == {"h100-1g-10gb", "h100-3g-40gb", "h100-whole", "l4-whole"}


def test_a_taken_port_is_a_clear_error(control_plane: ControlPlane, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process, output = start(tmp_path, port, "--cluster", str(control_plane.kubeconfig))
        assert process.wait(timeout=patient(30)) != 0
    until(lambda: output, "its words", 5)
    assert f"Port {port} is taken" in "".join(output)


def test_a_missing_kubeconfig_is_a_clear_error(tmp_path: Path) -> None:
    process, output = start(tmp_path, free_port(run=2), "--cluster", str(tmp_path / "nowhere"))
    assert process.wait(timeout=patient(30)) != 0
    until(lambda: output, "its words", 5)
    assert "There is no kubeconfig" in "".join(output)


def test_sigterm_ends_every_child_within_ten_seconds(control_plane: ControlPlane, tmp_path: Path) -> None:
    process, output = start(tmp_path, free_port(run=2), "--cluster", str(control_plane.kubeconfig))
    wait_ready(process, output)
    children = children_of(process.pid)
    assert len(children) >= 5
    began = time.monotonic()
    stop(process)
    assert time.monotonic() - began <= patient(10)
    assert [pid for pid in children if alive(pid)] == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]
