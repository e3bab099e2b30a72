"""The door under https: cookies that no page can plant, and nothing that was made for plain http."""

import asyncio
from uuid import UUID

import httpx
import pytest
from asgiref.typing import ASGIReceiveEvent, ASGISendEvent

from apps.workloads.opening.rules.hosts import Domain
from apps.workloads.opening.services.openings import Entered
from portal.door import app, headers, ways

DOMAIN = Domain("https", "apps.test")
WORKLOAD = UUID("01234567-89ab-4def-8123-456789abcdef")
ORIGIN = DOMAIN.origin(WORKLOAD)


def asked(path: str, **cookies: str) -> httpx.Response:
    """What a browser gets there; what stands before the door speaks plain http to it."""

    async def ask() -> httpx.Response:
        async with ways.Ways() as running:
            door = app.DoorApp(DOMAIN, "https://portal.test", running)
            transport = httpx.ASGITransport(door)
            sent = {
                "Host": DOMAIN.host(WORKLOAD),
                "Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items()),
            }
            async with httpx.AsyncClient(transport=transport, base_url="http://door.test") as browser:
                return await browser.get(path, headers=sent)

    return asyncio.run(ask())


def kept(answer: httpx.Response, name: str) -> str:
    """The attributes of a cookie that is set, in one order."""
    found = next(each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{name}="))
    return "; ".join(
        sorted(part.strip().lower() for part in found.split(";")[1:] if "age" not in part.lower())
    )


HOSTS_OWN = "httponly; path=/; samesite=lax; secure"


def test_its_cookies_are_of_this_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_entered", lambda *_: Entered("a-way-in"))
    answer = asked("/.allotment/enter?code=c")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ORIGIN}/")
    assert kept(answer, "__Host-allotment_way") == HOSTS_OWN
    monkeypatch.setattr(app, "_entered", lambda *_: Entered(None))
    answer = asked("/.allotment/enter?code=c")
    assert answer.headers["location"].startswith(f"https://portal.test/open/{WORKLOAD}/?code=c&browser=")
    assert kept(answer, "__Host-allotment_browser") == HOSTS_OWN


def test_a_cookie_of_plain_http_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def known(one: ways.Known, *_: object) -> None:
        taken.append(one.text)
        raise ways.Over

    monkeypatch.setattr(ways, "_asked", known)
    assert asked("/", allotment_way="planted").status_code == 401
    assert taken == []
    assert asked("/", **{"__Host-allotment_way": "real", "allotment_way": "planted"}).status_code == 401
    assert taken == ["real"]


def test_a_socket_of_the_same_host_by_plain_http_is_refused() -> None:
    sent: list[ASGISendEvent] = []
    plain = ORIGIN.replace("https", "http").encode()
    scope = {
        "type": "websocket", "path": "/ws", "raw_path": b"/ws",
        "headers": [(b"host", DOMAIN.host(WORKLOAD).encode()), (b"origin", plain),
                    (b"cookie", b"__Host-allotment_way=real")],
    }  # fmt: skip

    async def receive() -> ASGIReceiveEvent:
        return {"type": "websocket.connect"}

    async def send(event: ASGISendEvent) -> None:
        sent.append(event)

    async def ask() -> None:
        async with ways.Ways() as running:
            await app.DoorApp(DOMAIN, "https://portal.test", running)(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(ask())
    assert [event["type"] for event in sent] == ["websocket.close"]


def test_its_cookies_are_not_passed_on() -> None:
    cookies = b"__Host-allotment_way=w; __Host-allotment_session=s; mine=1"
    heard = headers.to_pod([(b"cookie", cookies)], DOMAIN.host(WORKLOAD), "https", b"token t")
    assert dict(heard)[b"cookie"] == b"mine=1"
    assert dict(heard)[b"x-forwarded-proto"] == b"https"
