"""A door in the test's process, before pods on a real node. Who may come in is tried in tests/door; here the
right is taken for granted.
"""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.routing import Router

from apps.workloads.opening.rules.hosts import Domain
from portal.door import ways
from portal.door.app import DoorApp
from tests.patience import patient
from tests.ports import free_port


@contextmanager
def door() -> Iterator[int]:
    """Its port."""
    port, running = free_port(), ways.Ways()

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with running:
            yield

    app = DoorApp(Domain("http", f"localhost:{port}"), "http://portal.test", running)
    router = Router(default=app, lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(router, port=port, log_level="warning", ws="websockets-sansio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(patient(10))
