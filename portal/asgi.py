"""The ASGI entry point."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import connections

from apps.web.stores import telling
from apps.web.streams import streaming
from portal import warming
from portal.edge import Edge
from portal.operate.tracing import starting

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Every request has a thread of its own here: without a pool each would open a connection of its own. The web
# processes of one machine share what one had alone.
os.environ.setdefault(
    "ALLOTMENT_DATABASE_POOL", str(max(8, 32 // int(os.environ.get("WEB_CONCURRENCY") or 1)))
)

KEPT_THREADS, KEPT_CONNECTIONS = 64, 8
"""How many wait for the next request, and how many of these with a connection of their own (on PostgreSQL all
share a pool): a burst may need more, and they end after it.
"""

GAUGES = {"streams": lambda: float(streaming.open_streams())}
"""What a web process tells of itself (`apps.web.stores.telling`)."""

BODY_SECONDS = 20.0
"""How long a request's body may take to arrive: 52 kB/s for the largest."""


class Handler(ASGIHandler):
    """All of a request in its one thread. Our middleware and views are synchronous: Django's own handler
    would pass each request some eight times between the event loop and that thread.

    A thread serves one request after the other: to start one for each, and one more to end it as asgiref
    does, costs as much as a small answer.
    """

    _middleware_chain: Any

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See Django: in a thread that no other request has meanwhile. The server's own start makes the
        process warm and lets it tell that it lives (`uvicorn --lifespan on`).
        """
        if scope["type"] == "lifespan":
            telling.start("web", GAUGES)
            starting.start("web")
            await warming.of_process(receive, send)
            return
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await super().__call__(scope, receive, send)
        finally:
            # Queued behind whatever it still does for a client that has gone.
            thread.submit(self._done, thread)

    def _done(self, thread: ThreadPoolExecutor) -> None:
        if len(self._idle) >= KEPT_CONNECTIONS:
            connections.close_all()
        if len(self._idle) < KEPT_THREADS:
            self._idle.append(thread)
        else:
            thread.shutdown(wait=False)

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - Django's signature
        """See Django: the chain is made for threads, and entered from the event loop once."""
        super().load_middleware(is_async=False)
        self._middleware_chain = sync_to_async(self._middleware_chain, thread_sensitive=True)


django.setup(set_prefix=False)
application = Edge(
    Handler(),
    limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    seconds=BODY_SECONDS,
    cookie=settings.SESSION_COOKIE_NAME,
)
