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
    server = uvicorn.Config(
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
    uvicorn.Server(server).run([_listening(config.bind, port) for port in ports])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SystemExit(f"The door cannot listen at {host}, port {port}: {error.strerror}.") from None


if __name__ == "__main__":
    main()
