"""`python -m portal.door`: the process that passes bytes, and judges requests where a Gateway asks it."""

import os
import socket

import uvicorn
from django.conf import settings

from portal.protocol import Protocol

LARGEST_MESSAGE = 128 * 1024**2
GRACE_SECONDS = 3


def main() -> None:
    """Serve until the process is asked to end."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    config = settings.CONFIG
    ports = [config.door_port, *([config.door_check_port] if config.gateway else [])]
    uvicorn.Server(served()).run([listening(config.bind, port) for port in ports])


def served() -> uvicorn.Config:
    """How the server treats what comes: nothing that a client says of itself is believed."""
    return uvicorn.Config(
        "portal.door.asgi:application",
        lifespan="on",
        http=Protocol,
        ws="websockets-sansio",
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_level="warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def listening(host: str, port: int) -> socket.socket:
    """Ends the process in words where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SystemExit(f"The door cannot listen at {host}, port {port}: {error.strerror}.") from None
    # What is accepted inherits it. asyncio sets it only for listeners that it makes itself; without it the
    # body of an answer waits 40 ms for the browser's word that it has the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


if __name__ == "__main__":
    main()
