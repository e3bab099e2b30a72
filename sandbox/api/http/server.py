"""The HTTP face: reads a request, knows who asks, checks access, finds the handler.

Semantics live in `rest` and below.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox.api.admission.escalation import EscalationGuard
from sandbox.api.auth.rbac import Ask, Authorizer
from sandbox.api.auth.tokens import Tokens
from sandbox.api.auth.users import User
from sandbox.api.http import discovery, logs, protobuf
from sandbox.api.http.faults import Cut, Faults
from sandbox.api.http.openapi import Documents
from sandbox.api.http.requests import (
    ANONYMOUS,
    MAX_BODY,
    PROTOBUF,
    Reply,
    Request,
    body_object,
    error_reply,
    in_yaml,
    json_reply,
    locate,
    parse_query,
)
from sandbox.api.http.rest import Rest
from sandbox.api.http.reviews import ANSWERS
from sandbox.api.http.subresources import HANDLERS, scale
from sandbox.api.http.watching import Control, Watch
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
_HEALTH = ("/healthz", "/readyz", "/livez")
_ELSEWHERE = frozenset({"portforward", "proxy", "attach", "ephemeralcontainers", "resize"})
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_STREAM_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]


class Server:
    """Everything a request needs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.registry = cluster, cluster.registry
        self.tokens = Tokens(cluster)
        self.authorizer = Authorizer(cluster.store)
        cluster.admission.append(EscalationGuard(self.authorizer))
        self.rest = Rest(cluster)
        self.documents = Documents(cluster)
        self.faults = Faults(cluster.ids.seed)
        self.watches = Control()
        pool = cluster.kinds.pool
        self.scale_kind = Kind(
            "autoscaling",
            "v1",
            "scales",
            "scale",
            "Scale",
            True,
            pool.named("io.k8s.api.autoscaling.v1.Scale"),
        )

    # -- the way of a request --------------------------------------------------------------------------------

    async def http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request from bytes to bytes."""
        # Of a header sent twice the first counts, as in Go.
        headers = {key.decode(): value.decode("latin-1") for key, value in reversed(scope["headers"])}
        request = Request(scope["method"], scope["path"], parse_query(scope["query_string"]), headers)
        try:
            await self._before(request, receive)
            reply = await self._answer(request, receive, send)
        except errors.ApiError as problem:
            reply = error_reply(problem)
        except Cut:
            raise
        if reply is not None:
            self._after(request)
            in_yaml(request, reply)
            await _send(send, request, reply)

    async def _before(self, request: Request, receive: Receive) -> None:
        slow = self.faults.drawn(request, "latency")
        if slow is not None:
            await asyncio.sleep(slow.latency)
        if self.faults.drawn(request, "gone") is not None:
            raise Cut
        refused = self.faults.drawn(request, "status")
        if refused is not None:
            raise refused.error()
        request.user = self.tokens.bearer(request.headers.get("authorization", "")) or ANONYMOUS
        request.info = locate(request.path)
        self._impersonate(request)
        if request.method not in ("GET", "HEAD"):
            request.body = await _read(receive)
            if request.media() == PROTOBUF:
                request.body = protobuf.to_json(request.body)
                request.headers = {**request.headers, "content-type": "application/json"}

    def _after(self, request: Request) -> None:
        """The write is stored by now: a cut here loses only the answer."""
        if self.faults.drawn(request, "cut") is not None:
            raise Cut

    async def _answer(self, request: Request, receive: Receive, send: Send) -> Reply | None:
        if not request.info.resource:
            return self._plain(request)
        kind = self._kind(request)
        self._authorize(request)
        if kind is None:
            return self._view(request)
        if request.watches():
            lines = Watch(
                self.cluster.store,
                self.rest.wish(request, kind),
                self.rest.render(request, kind),
                self.watches,
            ).lines()
            await _stream(send, receive, lines, _STREAM_HEADERS)
            return None
        if request.info.subresource == "log":
            asked = logs.wanted(self.cluster, request)
            if asked is None:
                return Reply(204)
            await _stream(send, receive, logs.stream(self.cluster, asked), [(b"content-type", b"text/plain")])
            return None
        return self._resource(request, kind)

    def _kind(self, request: Request) -> Kind | None:
        info = request.info
        kind = self.cluster.kinds.at(info.group, info.version, info.resource)
        if kind is not None:
            return kind
        place = (
            f"{info.group}/{info.version}/{info.resource}"
            if info.group
            else f"{info.version}/{info.resource}"
        )
        if place in self.cluster.kinds.not_simulated and self.cluster.views.find(request.path) is None:
            raise errors.not_simulated(place)
        return None

    def _view(self, request: Request) -> Reply:
        found = self.cluster.views.find(request.path)
        if found is None or request.method != "GET":
            if request.info.group in discovery.versions(self.cluster):
                raise errors.path_not_found()
            return Reply(404, b"404 page not found\n", media="text/plain; charset=utf-8")
        handler, params = found
        return json_reply(handler(params, request.query))

    # -- access ----------------------------------------------------------------------------------------------

    def _authorize(self, request: Request) -> None:
        if request.user.is_admin():
            return
        info, verb = request.info, _VERBS.get(request.method, "")
        if not info.name:
            verb = {"get": "watch" if request.watches() else "list", "delete": "deletecollection"}.get(
                verb, verb
            )
        self.authorizer.check(request, self._question(request, verb))

    def _question(self, request: Request, verb: str) -> Ask:
        """What access is needed; a list that selects one name asks for that name."""
        info = request.info
        namespace = info.name if info.resource == "namespaces" and info.name else info.namespace
        selected = re.fullmatch(r"metadata\.name=([^,!=]+)", request.query.get("fieldSelector", ""))
        name = info.name or (selected.group(1) if selected else "")
        return Ask(verb, info.group, info.resource, info.subresource, namespace, name)

    def _impersonate(self, request: Request) -> None:
        """Act as the user and group of the Impersonate headers, if the caller may."""
        name, group = (
            request.headers.get("impersonate-user", ""),
            request.headers.get("impersonate-group", ""),
        )
        if not name:
            return
        asks = [Ask("impersonate", resource="users", name=name)]
        asks += [Ask("impersonate", resource="groups", name=group)] if group else []
        if not all(self.authorizer.allows(request.user, ask) for ask in asks):
            verb = (
                "list"
                if request.method == "GET" and not request.info.name
                else _VERBS.get(request.method, "")
            )
            self.authorizer.check(request, self._question(request, f"impersonate-on:user-info:{verb}"))
        groups = tuple(dict.fromkeys([group, "system:authenticated"] if group else ["system:authenticated"]))
        request.user = User(name, groups)

    # -- plain paths -----------------------------------------------------------------------------------------

    def _plain(self, request: Request) -> Reply:
        path = request.path.rstrip("/") or "/"
        if any(path == root or path.startswith(root + "/") for root in _HEALTH):
            return Reply(200, b"ok", media="text/plain; charset=utf-8")
        if not request.user.is_admin():
            self.authorizer.check(request, Ask(_VERBS.get(request.method, "").lower(), path=path))
        if path == "/version":
            return json_reply(self.cluster.kinds.version)
        if path == "/":
            return json_reply(
                {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
            )
        reply = self.documents.answer(request) or discovery.answer(self.cluster, request)
        return reply or Reply(404, b"404 page not found\n", media="text/plain; charset=utf-8")

    # -- resources -------------------------------------------------------------------------------------------

    def _resource(self, request: Request, kind: Kind) -> Reply:
        info = request.info
        if info.subresource and info.subresource != "status":
            return self._subresource(request, kind)
        if info.subresource == "status" and not kind.has_status():
            raise (
                errors.path_not_found()
                if kind.native
                else errors.not_found(kind.plural, kind.group, info.name)
            )
        if not kind.stored:
            return self._review(request, kind)
        if kind.namespaced and not info.namespace and (info.name or request.method == "POST"):
            raise errors.path_not_found()
        return self._verb(request, kind)

    def _verb(self, request: Request, kind: Kind) -> Reply:
        one: dict[str, Callable[[Request, Kind], Reply]] = {
            "GET": self.rest.get,
            "HEAD": self.rest.get,
            "PUT": self.rest.put,
            "PATCH": self.rest.patch,
            "DELETE": self.rest.delete,
        }
        many: dict[str, Callable[[Request, Kind], Reply]] = {
            "GET": self.rest.collection,
            "HEAD": self.rest.collection,
            "POST": self.rest.create,
            "DELETE": self.rest.delete_collection,
        }
        handler = (one if request.info.name else many).get(request.method)
        if handler is None:
            raise errors.ApiError(
                405, "the server does not allow this method on the requested resource", details={}
            )
        return handler(request, kind)

    def _subresource(self, request: Request, kind: Kind) -> Reply:
        name = request.info.subresource
        handler = HANDLERS.get((kind.key, name)) or (
            scale if name == "scale" and name in kind.subresources else None
        )
        if handler is not None:
            return handler(self, request, kind)
        if name.partition("/")[0] in _ELSEWHERE:
            raise errors.not_simulated(f"{kind.plural}/{name}")
        if name in kind.subresources and request.method in ("PATCH", "PUT", "GET"):
            return self._verb(request, kind)
        raise errors.path_not_found()

    def _review(self, request: Request, kind: Kind) -> Reply:
        if request.method != "POST":
            raise errors.ApiError(
                405, "the server does not allow this method on the requested resource", details={}
            )
        body: Obj = body_object(request.body, request.media())
        if kind.key not in ANSWERS:
            raise errors.not_simulated(kind.plural)
        status = ANSWERS[kind.key](self, request, body)
        return json_reply(
            {
                "kind": kind.kind,
                "apiVersion": kind.api_version,
                "metadata": body.get("metadata") or {},
                **({"spec": body["spec"]} if "spec" in body else {}),
                "status": status,
            },
            201,
        )


async def _read(receive: Receive) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Cut
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise errors.ApiError(
                413, f"Request entity too large: limit is {MAX_BODY}", reason="RequestEntityTooLarge"
            )
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send(send: Send, request: Request, reply: Reply) -> None:
    headers = [
        (b"content-type", reply.media.encode()),
        (b"content-length", str(len(reply.body)).encode()),
        (b"cache-control", b"no-cache, private"),
    ]
    headers += [(key.lower().encode(), value.encode()) for key, value in reply.headers.items()]
    headers += [
        (b"warning", b'299 - "%s"' % text.replace("\\", "\\\\").replace('"', '\\"').encode())
        for text in request.warnings
    ]
    await send({"type": "http.response.start", "status": reply.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else reply.body})


async def _stream(
    send: Send, receive: Receive, chunks: AsyncIterator[bytes], headers: list[tuple[bytes, bytes]]
) -> None:
    """Send until the source ends or the client goes."""
    gone = asyncio.ensure_future(_disconnected(receive))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    sending = asyncio.ensure_future(_pump(send, chunks))
    try:
        await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        for task in (gone, sending):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    if not gone.done() or gone.cancelled():
        await send({"type": "http.response.body", "body": b""})


async def _pump(send: Send, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
