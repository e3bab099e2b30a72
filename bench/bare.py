"""The reference: a bare loop that applies given bodies to the API server, and the same client for REST.

aiohttp, because of the Python clients it comes closest to a Go loop (it reached 1.13 of one on two cores).
"""

import asyncio
import base64
import copy
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import yaml

from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import MANAGER, object_name

Body = dict[str, Any]
QUERY = f"fieldManager={MANAGER}&force=false&fieldValidation=Strict"
IN_FLIGHT = 16


class ApiServer:
    """The API server with one credential and warm connections."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self.url = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)

    def session(self) -> aiohttp.ClientSession:
        """To be used as a context manager."""
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=3 * IN_FLIGHT)
        return aiohttp.ClientSession(connector=connector, headers=self._headers)

    async def apply(self, session: aiohttp.ClientSession, body: Body) -> None:
        """One server-side apply, as the product sends it."""
        metadata = body["metadata"]
        path = KINDS[body["kind"]].path(metadata["namespace"], metadata["name"])
        kind = {"Content-Type": "application/apply-patch+yaml"}
        url = f"{self.url}{path}?{QUERY}"
        async with session.patch(url, data=json.dumps(body), headers=kind) as answer:
            await answer.read()
            if answer.status not in (200, 201):
                raise RuntimeError(f"{body['kind']}: {answer.status} {await answer.text()}")

    async def warm(self, session: aiohttp.ClientSession, count: int) -> None:
        """So many open connections: both sides are measured on warm ones."""

        async def ask() -> None:
            async with session.get(f"{self.url}/version") as answer:
                await answer.read()

        await asyncio.gather(*(ask() for _ in range(count)))


async def in_flight(work: Sequence[Callable[[], Awaitable[None]]], most: int = IN_FLIGHT) -> None:
    """All of it, so many at a time."""
    waiting = iter(work)

    async def worker() -> None:
        for one in waiting:
            await one()

    await asyncio.gather(*(worker() for _ in range(most)))


def renamed(bodies: Sequence[Body], *, old: dict[str, str], new: dict[str, str]) -> list[Body]:
    """The same bodies for another object: name, namespace, id and tenant are replaced wherever they stand."""
    text = json.dumps(bodies)
    for key, word in old.items():
        text = text.replace(word, new[key])
    return list(json.loads(text))


def fresh(old: dict[str, str], *, namespace: str, tenant: str) -> dict[str, str]:
    """Identity of one more object, of the same length as the old."""
    pk = str(uuid4())
    name = f"{old['name'].removesuffix(tail(old['uid']))}{tail(pk)}"
    return {"name": name, "uid": pk, "namespace": namespace, "tenant": tenant}


def tail(uid: str) -> str:
    """What its id adds to the name of an object."""
    return object_name("", UUID(uid)).removeprefix("x")


async def apply_all(server: ApiServer, requests: Sequence[Sequence[Body]]) -> float:
    """Each request's bodies in parallel, 16 requests in flight; answers when it began."""
    async with server.session() as session:
        await server.warm(session, IN_FLIGHT)
        began = time.time()

        def work(bodies: Sequence[Body]) -> Callable[[], Awaitable[None]]:
            async def one() -> None:
                await asyncio.gather(*(server.apply(session, body) for body in bodies))

            return one

        await in_flight([work(bodies) for bodies in requests])
    return began


def plain(body: Body) -> Body:
    """A copy without what the server adds."""
    kept = copy.deepcopy(body)
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        kept["metadata"].pop(field, None)
    kept.pop("status", None)
    return kept
