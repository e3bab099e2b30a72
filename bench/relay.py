"""The reference of G5: a watch on one namespace's pods, passed on byte by byte over server-sent events.

A raw ASGI program for uvicorn; it looks at nothing and stores nothing.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from bench.bare import ApiServer

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def app(scope: Scope, _receive: Receive, send: Send) -> None:
    """One connection: its own watch, every line of it as one event."""
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    server = ApiServer(Path(os.environ["RELAY_KUBECONFIG"]))
    url = f"{server.url}/api/v1/namespaces/{os.environ['RELAY_NAMESPACE']}/pods?watch=true"
    async with server.session() as session, session.get(url, timeout=None) as watch:
        await send({"type": "http.response.body", "body": b"event: beat\n\n", "more_body": True})
        async for line in watch.content:
            await send({"type": "http.response.body", "body": b"data: " + line + b"\n", "more_body": True})
            await asyncio.sleep(0)
