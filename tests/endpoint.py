"""Servers of a test's own that speak like a cluster: each in a thread of its own."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, Self

import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal


class Endpoint(ABC):
    """Serves on a free port while it is entered.

    What it still serves at the end is cancelled before the loop closes: a task left to the garbage collector
    speaks up in the middle of another test.
    """

    token = "t"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.portal: BlockingPortal = stack.enter_context(start_blocking_portal())
            server = self.portal.call(self.listen)
            # In the loop's own thread: a connection that ends at the same moment closes the server too.
            stack.callback(self.portal.call, server.close)
            self._open = stack.pop_all()
        self.port: int = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @abstractmethod
    async def listen(self) -> Any:
        """The server, listening: an `asyncio.Server` or one of websockets."""

    @property
    def kubeconfig(self) -> str:
        """The way here."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": self.token}}
        document = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document})
