"""The port-forward of an API server, as the kubelet speaks it over WebSockets, to real servers as pods."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.endpoint import Endpoint

PATH = re.compile(r"/api/v1/namespaces/[a-z0-9-]+/pods/(?P<pod>[a-z0-9-]+)/portforward\?ports=8888")
TOKEN = "door-token"


class Endless:
    """A right that does not end."""

    async def over(self) -> None:
        await asyncio.Event().wait()


class Forwarding(Endpoint):
    """`pods` are ports of this machine by the pod's name up to its first dash."""

    token = TOKEN

    def __init__(self, pods: Mapping[str, int]) -> None:
        self.pods, self.opened = pods, 0

    async def listen(self) -> Server:
        """See `Endpoint`."""
        protocols: Any = ["v4.channel.k8s.io"]
        return await serve(
            self._carry, "127.0.0.1", 0, subprotocols=protocols, max_size=None, compression=None
        )

    async def _carry(self, stream: ServerConnection) -> None:
        request = stream.request
        assert request is not None
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        found = PATH.fullmatch(request.path)
        if found is None or found["pod"].partition("-")[0] not in self.pods:
            await stream.close(1008, "no such pod")
            return
        self.opened += 1
        for channel in (0, 1):
            await stream.send(bytes([channel]) + (8888).to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.pods[found["pod"].partition("-")[0]]
            )
        except OSError as error:
            await stream.send(b"\x01" + str(error).encode())
            return
        back = asyncio.ensure_future(self._back(stream, reader))
        try:
            async for message in stream:
                assert isinstance(message, bytes)
                assert message[0] == 0
                writer.write(message[1:])
                await writer.drain()
        except (ConnectionClosed, ConnectionError):
            pass  # a browser that goes is what these tests are about
        finally:
            back.cancel()
            writer.close()

    async def _back(self, stream: ServerConnection, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(65536):
            await stream.send(b"\x00" + chunk)
        await stream.close()
