"""The suites of the cluster app use the Redis and the people of the suites of HTTP."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.accounts.conftest import actor, ada, bearer, make_token
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["actor", "ada", "bearer", "broker", "make_token", "no_broker", "redis_server"]


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what was said to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            try:
                while True:
                    with server.accept()[0] as conversation:
                        heard.append(conversation.recv(4096))
            except OSError:
                return

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
