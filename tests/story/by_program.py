"""The documented program that opens a terminal, as docs/ssh.md has it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx

from tests.story.conftest import ROOT, Installation

LOCAL = """
import socket
resolve = socket.getaddrinfo
def local(host, *rest, **how):
    # As a browser does: every name below localhost is this machine, which the system's resolver may not know.
    return resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *rest, **how)
socket.getaddrinfo = local
"""
TYPED = 'b"nvidia-smi -L\\nexit 3\\n"'


def example() -> str:
    """The program in the documentation."""
    text = (ROOT / "docs" / "ssh.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert TYPED in program
    return str(program)


def started(program: str, simulated: Installation, token: str, workload: str) -> subprocess.Popen[bytes]:
    environment = {"PORTAL": simulated.url, "TOKEN": token, "WORKLOAD": workload}
    return subprocess.Popen(
        [sys.executable, "-c", LOCAL + program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def lines_of(program: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What it writes, as it comes."""
    assert program.stdout
    return iter(program.stdout.readline, b"")


def token_of(client: httpx.Client) -> dict[str, Any]:
    """A token that only works with workloads."""
    asked = {"name": "ci", "scopes": ["workloads:write"], "tenants": ["vision"]}
    answer = client.post("/tokens", json=asked)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made
