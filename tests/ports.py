"""Ports for servers that tests start."""

import random
import socket

# Below what Linux gives to clients (net.ipv4.ip_local_port_range begins at 32768): otherwise a connection of
# some test could take the port before the server starts. From 20000 on are the control planes' blocks.
FIRST, LAST = 10000, 20000
_RANDOM = random.SystemRandom()


def free_port(run: int = 1) -> int:
    """A port that nobody listens on, as are the `run - 1` after it."""
    while True:
        port = _RANDOM.randrange(FIRST, LAST)
        if all(is_free(each) for each in range(port, port + run)):
            return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
