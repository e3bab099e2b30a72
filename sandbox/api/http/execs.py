"""pods/exec over websocket (v4 and v5 channel protocol).

The answer comes from the cluster's exec source; no command ever runs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from sandbox.api.auth.rbac import Ask
from sandbox.api.http import logs
from sandbox.api.http.requests import ANONYMOUS, Request, locate
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.storage.store import Place

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import ExecSource, ShellSource
    from sandbox.api.http.server import Receive, Send, Server

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255


def parse(scope: dict[str, Any]) -> tuple[Request, list[str]]:
    """What is asked for, and the words of a command."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}
    request = Request("GET", scope["path"], dict(pairs), headers, info=locate(scope["path"]))
    return request, [value for key, value in pairs if key == "command"]


def pod_of(server: Server, request: Request, subresource: str) -> Obj:
    """The pod that a websocket asks for, if its caller may connect to that part of it."""
    info = request.info
    request.user = server.tokens.bearer(request.headers.get("authorization", "")) or ANONYMOUS
    # Since 1.35 a websocket needs `create`; `get` alone was enough before.
    server.authorizer.check(
        request, Ask("create", info.group, info.resource, info.subresource, info.namespace, info.name)
    )
    if info.resource != "pods" or info.subresource != subresource:
        raise errors.not_simulated(f"{info.resource}/{info.subresource}")
    entry = server.cluster.store.get("pods", Place(info.namespace, info.name))
    if entry is None:
        raise errors.not_found("pods", "", info.name)
    return entry.obj


def _container(server: Server, request: Request) -> tuple[Obj, str, ExecSource]:
    pod = pod_of(server, request, "exec")
    container = logs.container_of(pod, request.query.get("container", ""))
    source = server.cluster.exec
    if dig(pod, "status", "phase") != "Running" or source is None:
        raise errors.ApiError(400, f'container not found ("{container}")')
    return pod, container, source


def _verdict(code: int) -> bytes:
    if code == 0:
        return orjson.dumps({"metadata": {}, "status": "Success"})
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return orjson.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": causes},
        }
    )


async def serve(server: Server, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """One websocket: a shell until it is left; or one command, both outputs and the exit code."""
    await receive()
    request, command = parse(scope)
    offered = [name for name in _PROTOCOLS if name in scope.get("subprotocols", ())]
    is_terminal = request.query.get("tty") == "true"
    now = server.cluster.clock.now
    try:
        pod, container, source = _container(server, request)
        shell = None
        if request.query.get("stdin") == "true":
            shell = source.shell(pod, container, command, now, is_terminal=is_terminal)
        out, err, code = ("", "", 0) if shell else source.run(pod, container, command, now())
    except errors.ApiError as problem:
        await refuse(scope, send, problem)
        return
    await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
    if shell:
        code = await _left(shell, receive, send)
    for channel, text in ((_STDOUT, out.encode()), (_STDERR, err.encode()), (_ERROR, _verdict(code))):
        await _say(send, channel, text)
    await send({"type": "websocket.close", "code": 1000})


async def _left(shell: ShellSource, receive: Receive, send: Send) -> int:
    """Answer what is typed until the shell is left; its exit code."""
    await _say(send, _STDOUT, shell.greeting)
    while not shell.is_over and (message := await receive())["type"] == "websocket.receive":
        content = message.get("bytes") or b""
        if content[:1] == bytes([_STDIN]):
            await _say(send, _STDOUT, shell.heard(content[1:]))
        elif content == bytes([_CLOSE, _STDIN]):
            await _say(send, _STDOUT, shell.ended())
    return shell.code


async def _say(send: Send, channel: int, text: bytes) -> None:
    if text:
        await send({"type": "websocket.send", "bytes": bytes([channel]) + text})


async def refuse(scope: dict[str, Any], send: Send, problem: errors.ApiError) -> None:
    """A websocket that is not accepted, with the reason where the server can say it."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": problem.message[:120]})
        return
    await send(
        {
            "type": "websocket.http.response.start",
            "status": problem.code,
            "headers": [(b"content-type", b"application/json")],
        }
    )
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(problem.status())})
