"""The door's address book: whose host it is, who comes in, and what is said to all others."""

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db import Error as DatabaseError
from django.template.loader import render_to_string
from django.utils import timezone
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from apps.accounts.tokens import digest
from apps.errors import ClusterUnavailable, DomainError
from apps.workloads.opening.rules.hosts import ENTRY, Domain
from apps.workloads.opening.services import openings
from portal.door import headers, passing, programs
from portal.door.asking import in_thread
from portal.door.terminals import Terminals
from portal.door.ways import Known, Over, Way, Ways

if TYPE_CHECKING:
    from portal.door.shells import Shells

log = logging.getLogger(__name__)
HEALTH = "/.allotment/health"
EXPECTED = (Over, DomainError, DatabaseError, passing.Away, passing.Busy, passing.LeadsAway)
SAYS_NOTHING = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class DoorApp:
    """Pure ASGI: nothing of what goes through is read or kept."""

    def __init__(self, domain: Domain, portal: str, ways: Ways, check_port: int | None = None) -> None:
        self._domain, self._portal, self._ways, self._check_port = domain, portal, ways, check_port
        self._shells: Shells | None = None
        self._terminals = Terminals()
        prefix = "__Host-" if domain.scheme == "https" else ""
        self.cookie, self.browser = f"{prefix}allotment_way", f"{prefix}allotment_browser"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or WebSocket."""
        # Whatever stands in front: browsers are told the scheme that the installation is served by.
        scope = {**scope, "scheme": self._domain.scheme, "raw_path": scope.get("raw_path") or b"/"}
        host = (headers.value(scope["headers"], b"host") or b"").decode("latin-1")
        # Only a path is asked for: an address or `*` in its place is nobody's.
        workload = self._domain.workload(host) if scope["raw_path"].startswith(b"/") else None
        call = passing.Call(scope, receive, send, self._domain.origin(workload) if workload else "")
        if self._check_port and (scope.get("server") or ("", 0))[1] == self._check_port:
            await self._judge(call, workload)
        elif scope["type"] == "websocket" and host == self._domain.shells:
            await (await self._for_ssh()).serve(scope, receive, send)
        elif scope["type"] == "websocket" and host == self._domain.terminals:
            await self._terminals.serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await (self._websocket(call, workload) if workload else self._refuse(call))
        elif scope["path"] == HEALTH:
            await PlainTextResponse("ok")(scope, receive, send)
        elif workload is None:
            await self._page("unknown", 404)(scope, receive, send)
        elif scope["path"] == ENTRY and scope["method"] == "GET":
            await (await self._enter(Request(scope), workload))(scope, receive, send)
        else:
            await self._http(call, workload)

    async def _for_ssh(self) -> "Shells":
        """Made for the first who comes by SSH: its library is 10 MB, and many doors have no use for it."""
        if self._shells is None:
            made = await in_thread(_shells)
            self._shells = self._shells or made
        return self._shells

    async def _http(self, call: passing.Call, workload: UUID) -> None:
        scope, known = call.scope, self._known(call.scope)
        # No page of another host can make a browser send a token that it does not know.
        if not known.is_program and headers.is_foreign(scope["method"], scope["headers"], call.origin):
            await self._page("foreign", 403, workload)(*call[:3])
            return
        is_lost = await self._passed(call, known, workload, may_lose=True)
        if is_lost:
            await self._passed(call, known, workload, may_lose=False)

    async def _passed(self, call: passing.Call, known: Known, workload: UUID, *, may_lose: bool) -> bool:
        """Pass one request on. True: the pod behind the way does not answer, nothing was said to the client,
        and what only asks may be asked of another; with `may_lose` alone.
        """
        exchange = way = None
        try:
            way = await self._way(known, workload)
            exchange = passing.Exchange(call, way)
            await way.during(exchange.run())
        except EXPECTED as error:
            if way is not None and exchange is not None and isinstance(error, passing.Lost):
                is_elsewhere = self._ways.lose(known, way)
                if may_lose and is_elsewhere and exchange.may_be_asked_again:
                    return True
            # What has begun can only break off: the server closes the connection.
            if exchange is None or not exchange.begun:
                told = programs.said(error) if known.is_program else self._said(error, workload)
                await told(*call[:3])
        return False

    def _said(self, error: Exception, workload: UUID) -> Response:
        match error:
            case Over():
                return self._page("closed", 401, workload)
            case passing.LeadsAway():
                is_link = str(error).startswith(("https://", "http://", "//"))
                return self._page("elsewhere", 200, workload, url=str(error), is_link=is_link)
            case ClusterUnavailable() | passing.Away():
                return self._page("away", 502, workload)
            case passing.Busy():
                return self._page("busy", 503, workload)
            case DomainError():
                return self._page("refused", error.status, workload, refusal=error)
        return self._page("away", 503, workload)

    async def _judge(self, call: passing.Call, workload: UUID | None) -> None:
        """Whether the Gateway leads this request to the pod: 200, with what the pod is to hear; else 401 or
        403, which every Gateway passes on.

        RULE: a WebSocket would outlive its right behind a Gateway, which is to bring it to the door instead.
        """
        scope, known = call.scope, self._known(call.scope)
        # Some Gateways ask by GET and say here what they are asked (NGINX).
        method = headers.value(scope["headers"], b"method") or scope.get("method", "GET").encode()
        is_foreign = not known.is_program and headers.is_foreign(
            method.decode("latin-1"), scope["headers"], call.origin
        )
        if workload is None or is_foreign or not _is_of_route(scope, workload) or _is_lasting(scope):
            await self._page("foreign", 403, workload)(*call[:3])
            return
        try:
            way = await self._way(known, workload)
            answer = await way.during(_heard(call, way))
        except EXPECTED as error:
            answer = programs.said(error) if known.is_program else self._said(error, workload)
            if answer.status_code < 500 and answer.status_code != 401:
                answer.status_code = 403
        await answer(*call[:3])

    async def _websocket(self, call: passing.Call, workload: UUID) -> None:
        """Refused before it is accepted unless it comes from the workload's own page, or with a token."""
        known = self._known(call.scope)
        if known.is_program or headers.value(call.scope["headers"], b"origin") == call.origin.encode():
            try:
                way = await self._way(known, workload)
            except EXPECTED as refused:
                # The page that wanted it is told so when it is loaded again.
                log.info("no WebSocket to %s: %s", workload, refused)
            else:
                await passing.websocket(call, way)
                return
        await self._refuse(call)

    async def _refuse(self, call: passing.Call) -> None:
        await call.receive()
        await call.send({"type": "websocket.close", "code": passing.NOT_YOURS})

    def _known(self, scope: Scope) -> Known:
        """A token goes before a cookie."""
        token = programs.token(scope["headers"])
        return Known(token or headers.cookie(scope["headers"], self.cookie), is_program=bool(token))

    async def _way(self, known: Known, workload: UUID) -> Way:
        if not known.text:
            raise Over
        return await self._ways.of(known, workload)

    async def _enter(self, request: Request, workload: UUID) -> Response:
        """Exchange a code for the cookie; one that no browser was confirmed for goes to the portal first."""
        code = request.query_params.get("code", "")
        browser = headers.cookie(request.scope["headers"], self.browser) or secrets.token_urlsafe(32)
        try:
            entered = await in_thread(_entered, workload, code, digest(browser))
        except EXPECTED as error:
            return self._said(error, workload)
        if entered.cookie is None:
            query = urlencode({"code": code, "browser": digest(browser)})
            answer = self._redirect(f"{self._portal}/open/{workload}/?{query}")
            self._keep(answer, self.browser, browser, seconds=120)
            return answer
        answer = self._redirect(f"{self._domain.origin(workload)}/")
        self._keep(answer, self.cookie, entered.cookie)
        self._keep(answer, self.browser, "", seconds=0)
        return answer

    def _redirect(self, url: str) -> Response:
        return RedirectResponse(url, 303, headers=SAYS_NOTHING)

    def _keep(self, answer: Response, name: str, value: str, *, seconds: int | None = None) -> None:
        is_tls = self._domain.scheme == "https"
        answer.set_cookie(
            name, value, max_age=seconds, httponly=True, samesite="lax", secure=is_tls, path="/"
        )

    def _page(self, which: str, status: int, workload: UUID | None = None, **more: Any) -> Response:
        again = f"{self._portal}/open/{workload}/" if workload else self._portal
        shown = {"which": which, "again": again, "portal": self._portal, **more}
        answer = HTMLResponse(render_to_string("door/page.html", shown), status, headers=SAYS_NOTHING)
        answer.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return answer


def _is_of_route(scope: Scope, workload: UUID) -> bool:
    """Whether the route that asks leads to this workload: its question's path begins with it.

    RULE: the `Host` alone does not say so. Beside a request's address in absolute form it may be another
    one, which NGINX passes on while it follows the address.
    """
    return bool(scope["raw_path"].split(b"/", 2)[1] == str(workload).encode())


def _is_lasting(scope: Scope) -> bool:
    """Whether it asks for a WebSocket, or another connection that has no end of its own."""
    return any(key in (b"upgrade", b"sec-websocket-key") for key, _ in scope["headers"])


async def _heard(call: passing.Call, way: Way) -> Response:
    """What the pod is to hear in place of the browser's own headers of these names; empty: nothing."""
    scope, host = call.scope, call.origin.partition("//")[2]
    heard = headers.to_pod(scope["headers"], host, scope["scheme"], way.authorization)
    texts = {name: headers.value(heard, name) or b"" for name in (b"authorization", b"cookie")}
    return Response(headers={name.decode(): text.decode("latin-1") for name, text in texts.items()})


def _entered(workload: UUID, code: str, browser: str) -> openings.Entered:
    return openings.enter(workload=workload, code=code, browser=browser, now=timezone.now())


def _shells() -> "Shells":
    from portal.door.shells import Shells

    return Shells()


def door() -> Router:
    """The application of this installation's settings; ends the process where notebooks have no hosts."""
    domain = settings.CONFIG.apps
    if domain is None:
        raise SystemExit("ALLOTMENT_APPS_URL: set it, or leave the door out.")
    ways = Ways()

    @asynccontextmanager
    async def during(_: object) -> AsyncIterator[None]:
        async with ways:
            yield

    check_port = settings.CONFIG.door_check_port if settings.CONFIG.gateway else None
    return Router(default=DoorApp(domain, settings.CONFIG.url, ways, check_port), lifespan=during)
