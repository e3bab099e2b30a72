"""The edge in process: what of a body is read at all, and what reaches the product."""

import asyncio
from typing import Any

import pytest

from portal import asgi
from portal.edge import Edge

Sent = list[dict[str, Any]]


def asked(app: Any, messages: Sent, **scope: Any) -> tuple[Sent, int]:
    """What one connection is answered, and how many messages of it were taken."""
    answers: Sent = []
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.get_running_loop().create_future()
        return left.pop(0)

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    given = {
        "type": "http", "method": "POST", "path": "/api/v1/workloads", "raw_path": b"", "query_string": b"",
        "headers": [], "http_version": "1.1", "scheme": "http", "server": ("localhost", 80),
        "client": ("127.0.0.1", 1), **scope,
    }  # fmt: skip
    asyncio.run(app(given, receive, send))
    return answers, len(messages) - len(left)


def echo(seen: Sent) -> Any:
    """An application that keeps what it is given."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append({"scope": scope, "body": (await receive())["body"]})

    return Edge(app, limit=10, seconds=0.2, cookie="session")


KNOWN = (b"authorization", b"Bearer x")
CHUNKED = (b"transfer-encoding", b"chunked")


def piece(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_chunked_body_goes_on_whole_and_with_its_length() -> None:
    seen: Sent = []
    asked(echo(seen), [piece(b"abc", more=True), piece(b"def", more=False)], headers=[KNOWN, CHUNKED])
    assert seen[0]["body"] == b"abcdef"
    assert seen[0]["scope"]["headers"] == [KNOWN, (b"content-length", b"6")]


@pytest.mark.parametrize(
    ("headers", "messages", "reason", "taken"),
    [
        ([KNOWN, (b"content-length", b"11")], [piece(b"a" * 11, more=False)], "body_too_large", 0),
        ([KNOWN, (b"content-length", b"9" * 5000)], [], "body_too_large", 0),
        ([KNOWN, CHUNKED], [piece(b"a" * 6, more=True)] * 9, "body_too_large", 2),
        ([KNOWN, CHUNKED], [piece(b"a", more=True)], "request_timeout", 1),
        ([(b"content-length", b"2")], [piece(b"{}", more=False)], "invalid_token", 0),
        ([(b"cookie", b"a=b"), CHUNKED], [piece(b"{}", more=False)], "invalid_token", 0),
        ([(b"cookie", b"a=b; session=c"), CHUNKED], [piece(b"{}", more=False)], "", 1),
    ],
)
def test_what_is_refused_is_not_read(headers: Any, messages: Sent, reason: str, taken: int) -> None:
    seen: Sent = []
    assert asked(echo(seen), messages, headers=headers)[1] == taken
    assert seen[0]["scope"]["allotment.unread"] == reason
    assert seen[0]["body"] == (b"" if reason else b"{}")


def test_who_hangs_up_reaches_nobody() -> None:
    seen: Sent = []
    asked(echo(seen), [piece(b"a", more=True), {"type": "http.disconnect"}], headers=[KNOWN, CHUNKED])
    assert seen == []


def test_a_websocket_is_closed_before_it_opens() -> None:
    answers, _ = asked(asgi.application, [{"type": "websocket.connect"}], type="websocket")
    assert answers == [{"type": "websocket.close", "code": 4404}]


def test_the_products_own_edge_refuses_an_anonymous_upload_unread() -> None:
    length = (b"content-length", str(200 * 1024**2).encode())
    answers, taken = asked(asgi.application, [piece(b"a" * 65536, more=True)] * 9, headers=[length])
    assert (answers[0]["status"], taken) == (401, 0)
    assert (b"connection", b"close") in answers[0]["headers"]
