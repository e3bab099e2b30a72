"""The sandbox's own endpoints: faults, clock, state.

For its administrator only; Kubernetes clients never see them.
"""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.api.http.faults import Fault
from sandbox.api.http.server import Server
from sandbox.api.meta import errors

Endpoint = Callable[[Request], Awaitable[Response]]
ADMIN_CONFIG = "admin.kubeconfig"


def server_of(request: Request) -> Server:
    """The API server behind a request to one of the sandbox's own routes."""
    server: Server = request.state.server
    return server


def require_admin(request: Request) -> Server:
    """The server, for its administrator; 401 or 403 for everybody else."""
    server = server_of(request)
    user = server.tokens.bearer(request.headers.get("authorization", ""))
    if user is None:
        raise errors.ApiError(401, "Unauthorized")
    if not user.is_admin():
        raise errors.ApiError(403, "forbidden: this is the sandbox administrator's")
    return server


def guarded(endpoint: Callable[[Request, Server], Awaitable[Any]]) -> Endpoint:
    """An admin endpoint: JSON out, refusals as Status."""

    async def answer(request: Request) -> Response:
        try:
            server = require_admin(request)
            return JSONResponse(await endpoint(request, server))
        except errors.ApiError as problem:
            return JSONResponse(problem.status(), status_code=problem.code)
        except ValueError as problem:
            return JSONResponse(errors.bad_request(str(problem)).status(), status_code=400)

    return answer


async def _add_fault(request: Request, server: Server) -> Any:
    body = orjson.loads(await request.body())
    fault = Fault.parse(body)
    if fault.kind == "compact":
        server.cluster.store.compact(server.cluster.store.version)
    elif fault.kind == "watch-close":
        server.watches.epoch += 1
    elif fault.kind == "watch-pause":
        server.watches.paused_until = fault.until
    else:
        server.faults.add(fault)
    if fault.kind == "gone":
        server.watches.epoch += 1
    return _faults(server)


def _faults(server: Server) -> Any:
    now = time.monotonic()
    listed = [
        {
            "kind": fault.kind,
            "secondsLeft": round(fault.until - now, 1),
            "probability": fault.probability,
            "path": fault.path,
            "verbs": sorted(fault.verbs),
        }
        for fault in server.faults.active
        if fault.until > now
    ]
    return {"faults": listed, "met": server.faults.met, "watchesPaused": server.watches.paused()}


async def _list_faults(_request: Request, server: Server) -> Any:
    return _faults(server)


async def _clear_faults(_request: Request, server: Server) -> Any:
    server.faults.clear()
    server.watches.paused_until = 0.0
    return _faults(server)


def _clock_state(server: Server) -> Any:
    return {"now": server.cluster.clock.now().isoformat(), "speed": server.cluster.clock.speed}


async def _clock(_request: Request, server: Server) -> Any:
    return _clock_state(server)


async def _set_clock(request: Request, server: Server) -> Any:
    server.cluster.clock.set_speed(float(orjson.loads(await request.body())["speed"]))
    return _clock_state(server)


async def _state(_request: Request, server: Server) -> Any:
    store = server.cluster.store
    return {
        "simulation": True,
        "version": store.version,
        "compacted": store.compacted,
        "seed": server.cluster.ids.seed,
        "objects": {resource: store.count(resource) for resource in store.resources()},
        **_clock_state(server),
    }


def routes() -> list[Route]:
    """Everything under /sandbox/ that the API side owns."""
    return [
        Route("/sandbox/faults", guarded(_list_faults), methods=["GET"]),
        Route("/sandbox/faults", guarded(_add_fault), methods=["POST"]),
        Route("/sandbox/faults", guarded(_clear_faults), methods=["DELETE"]),
        Route("/sandbox/clock", guarded(_clock), methods=["GET"]),
        Route("/sandbox/clock", guarded(_set_clock), methods=["POST"]),
        Route("/sandbox/state", guarded(_state), methods=["GET"]),
    ]


class AdminClient:
    """What the command line uses to reach a running sandbox."""

    def __init__(self, server: str, token: str, authority: str) -> None:
        trust = ssl.create_default_context(cadata=authority)
        self._http = httpx.Client(
            base_url=server, headers={"Authorization": f"Bearer {token}"}, timeout=60, verify=trust
        )

    @classmethod
    def from_dir(cls, folder: Path) -> AdminClient:
        """Read the address and the token from the state folder's admin kubeconfig."""
        config = yaml.safe_load((Path(folder) / ADMIN_CONFIG).read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], config["users"][0]["user"]["token"], authority)

    def get(self, path: str) -> Any:
        """GET, JSON out; ValueError with the server's message."""
        return self._answer(self._http.get(path))

    def post(self, path: str, body: Any) -> Any:
        """POST JSON."""
        return self._answer(self._http.post(path, json=body))

    def delete(self, path: str) -> Any:
        """DELETE."""
        return self._answer(self._http.delete(path))

    @staticmethod
    def _answer(answer: httpx.Response) -> Any:
        if answer.status_code >= 400:
            raise ValueError(
                answer.json().get("message", answer.text)
                if answer.headers.get("content-type", "").startswith("application/json")
                else answer.text
            )
        return answer.json() if answer.content else None
