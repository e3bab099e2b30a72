"""What tests of a Gateway before the door ask by, and how they tell what came back."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.door.house import House
from tests.patience import until


@contextmanager
def stopped(home: House) -> Iterator[None]:
    """The door's process does nothing meanwhile."""
    pid = home.door_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        until(
            lambda: "\nState:\tT" in Path(f"/proc/{pid}/status").read_text(), "the door to stop", every=0.01
        )
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def refused(answer: httpx.Response, status: int) -> bool:
    """By this status, and without a word of any pod."""
    return answer.status_code == status and "pod of" not in answer.text and '"heard"' not in answer.text


def raw(port: int, *lines: str) -> bytes:
    """What comes back for these lines of a request."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        wire.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return wire.makefile("rb").read()
