"""Ports and readiness of the processes of a plane, all on loopback. Starts nothing."""

from __future__ import annotations

import http.client
import random
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from tests.controlplane.components import HOST, PORTS
from tests.ports import is_free

# Below the range that the kernel hands out for outgoing connections.
_BASE_PORTS = range(20000, 32000, len(PORTS))


class PortsTakenError(RuntimeError):
    """The block of ports that was asked for is not free."""


def checked_base(asked: int) -> int:
    """The asked base port if its whole block is free, else an error that names the ports; 0 picks a block."""
    if asked:
        taken = _taken(asked)
        if taken:
            raise PortsTakenError(f"ports in use: {taken}; choose another base port or none")
        return asked
    # In random order, so that planes started at the same moment do not race for the same block.
    for base in random.sample(_BASE_PORTS, len(_BASE_PORTS)):
        if not _taken(base):
            return base
    raise PortsTakenError(f"no free block of {len(PORTS)} ports between 20000 and 32000")


def answers(address: str, authority: Path | None = None) -> bool:
    """True if a GET of `address` answers 200; not listening and not ready are both False. https is judged
    by `authority`.
    """
    parts = urlsplit(address)
    connection = _connection(parts.scheme, parts.hostname or HOST, parts.port, authority)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        # The caller asks again until its own time is up, and then shows the component's log.
        return False
    finally:
        connection.close()


def _connection(
    scheme: str, host: str, port: int | None, authority: Path | None
) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=2)
    context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    return http.client.HTTPSConnection(host, port, timeout=2, context=context)


def _taken(base: int) -> list[int]:
    return [port for port in range(base, base + len(PORTS)) if not is_free(port)]
