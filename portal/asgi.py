"""The ASGI entry point."""

import os
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler

from portal.edge import Edge

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Every request has a thread of its own here: without a pool each would open a connection of its own.
os.environ.setdefault("ALLOTMENT_DATABASE_POOL", "32")

BODY_SECONDS = 20.0
"""How long a request's body may take to arrive: 52 kB/s for the largest."""


class Handler(ASGIHandler):
    """All of a request in its one thread. Our middleware and views are synchronous: Django's own handler
    would pass each request some eight times between the event loop and that thread.
    """

    _middleware_chain: Any

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
