"""A client of one Jupyter server: what a browser would ask it."""

from __future__ import annotations

import json
import urllib.request
from typing import Any, Protocol
from uuid import uuid4

import websocket

_SECONDS = 30


class Receives(Protocol):
    """A socket that messages come from."""

    def recv(self) -> Any:
        """The next one."""
        ...


class Jupyter:
    """The server of one notebook, by its pod's IP and its token."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._headers = address, {"Authorization": f"token {token}"}

    def ask(self, path: str, body: dict[str, Any] | None = None) -> str:
        """GET, or POST with a body; what was answered."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self._address}{path}", data, headers=self._headers)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - a pod of ours
            text: str = answer.read().decode()
            return text

    def run(self, code: str) -> str:
        """Runs a cell in a new kernel and returns what it printed, or the error's lines."""
        kernel = json.loads(self.ask("/api/kernels", {"name": "python3"}))["id"]
        socket = websocket.create_connection(
            f"ws://{self._address}/api/kernels/{kernel}/channels", header=self._headers, timeout=_SECONDS
        )
        try:
            message = execute(code)
            socket.send(json.dumps(message))
            return printed(socket, message["header"]["msg_id"])
        finally:
            socket.close()


def execute(code: str) -> dict[str, Any]:
    """The message that asks a kernel to run a cell."""
    header = {
        "msg_id": uuid4().hex, "username": "", "session": uuid4().hex, "msg_type": "execute_request",
        "version": "5.3",
    }  # fmt: skip
    content = {
        "code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False
    }  # fmt: skip
    return {
        "header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "content": content,
        "buffers": [],
    }  # fmt: skip


def printed(socket: Receives, asked: str) -> str:
    """What a cell printed, or the error's lines."""
    lines = ""
    while True:
        message = json.loads(socket.recv())
        if message["parent_header"].get("msg_id") != asked:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            lines += content["text"]
        elif message["msg_type"] == "error":
            lines += "\n".join(content["traceback"])
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            return lines
