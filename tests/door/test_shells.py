"""The door's SSH server before anybody is inside: who is turned away. What follows is in tests/story."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import asyncssh
import pytest
from pytest_django import Settings

from apps.workloads.opening.rules.hosts import ShellName
from apps.workloads.opening.selectors import shell_setup
from portal.door import shells
from portal.door.shells import Shells

PERSON = SimpleNamespace(pk=UUID(int=1), user_id=UUID(int=2))


async def refused(path: str, *headers: tuple[bytes, bytes], strangers: int = 0) -> int:
    """The code with which a WebSocket is closed before it is accepted."""
    house, sent = Shells(), []
    house.strangers = strangers

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await house.serve({"type": "websocket", "path": path, "headers": list(headers)}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    return int(sent[0]["code"])


@pytest.mark.parametrize(
    ("path", "headers", "strangers", "code"),
    [
        ("/vision", [], 0, shells.NOT_HERE),
        ("/vision/nb", [(b"origin", b"https://evil.example")], 0, shells.NOT_HERE),
        ("/vision/nb", [], shells.MOST_STRANGERS, shells.TOO_MANY),
    ],
)
def test_what_is_no_ssh_client_or_one_too_many_is_not_let_near(
    path: str, headers: list[tuple[bytes, bytes]], strangers: int, code: int
) -> None:
    assert asyncio.run(refused(path, *headers, strangers=strangers)) == code


@asynccontextmanager
async def dialled(house: Shells) -> AsyncIterator[socket.socket]:
    """A socket that leads to the server as a WebSocket's bytes do."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop, is_first = asyncio.get_running_loop(), True

    async def receive() -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "websocket.connect"}
        data = await loop.sock_recv(theirs, 65536)
        return {"type": "websocket.receive", "bytes": data} if data else {"type": "websocket.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            await loop.sock_sendall(theirs, message["bytes"])
        elif message["type"] == "websocket.close":
            theirs.shutdown(socket.SHUT_RDWR)

    scope = {"type": "websocket", "path": "/vision/nb", "headers": []}
    serving = asyncio.ensure_future(house.serve(scope, receive, send))
    try:
        yield ours
    finally:
        ours.close()
        await asyncio.wait({serving}, timeout=10)
        theirs.close()
        assert serving.done()
        serving.result()


async def signed_in(*keys: asyncssh.SSHKey, known: str = "", learn: Any = None) -> str:
    """Sign in with these keys, in this order; the server's own key as the client saw it. `learn` gets the
    keys that the server sends along.
    """
    house, learned = Shells(), asyncio.Event()

    def handler(*sent: Any) -> None:
        learn(*sent)
        learned.set()

    async with dialled(house) as sock:
        trusted = asyncssh.import_known_hosts(known or shell_setup.known_hosts())
        given: dict[str, Any] = {
            "server_host_keys_handler": handler if learn else None,
            "sock": sock, "username": "me", "client_keys": list(keys), "known_hosts": trusted,
            "host_key_alias": shell_setup.HOST, "agent_path": None, "password_auth": False,
        }  # fmt: skip
        async with asyncssh.connect("nb.vision.allotment", 22, **given) as connection:
            assert house.strangers == 0
            seen = connection.get_server_host_key()
            assert seen is not None
            if learn:
                await asyncio.wait_for(learned.wait(), 10)
            return str(seen.get_fingerprint())


def known(monkeypatch: pytest.MonkeyPatch, *keys: asyncssh.SSHKey) -> None:
    fingerprints = {key.get_fingerprint() for key in keys}
    monkeypatch.setattr(shells, "ssh_key_of", lambda text: PERSON if text in fingerprints else None)


def test_a_key_that_somebody_has_signs_in_and_the_server_is_the_one_that_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stranger, mine = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    known(monkeypatch, mine)
    own = asyncssh.import_private_key(shell_setup.host_keys()[0]).get_fingerprint()
    assert asyncio.run(signed_in(stranger, mine)) == own
    with pytest.raises(asyncssh.PermissionDenied):
        asyncio.run(signed_in(stranger))
    with pytest.raises(asyncssh.PermissionDenied):
        asyncio.run(signed_in())


def test_whoever_knows_the_server_by_an_old_secret_key_learns_the_new(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """RULE: the server is known by the oldest key that is listed, and sends along the next one."""
    before = shell_setup.known_hosts()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]
    mine = asyncssh.generate_private_key("ssh-ed25519")
    known(monkeypatch, mine)
    learned: list[asyncssh.SSHKey] = []

    def learn(added: list[asyncssh.SSHKey], *_: Any) -> None:
        learned.extend(added)

    asyncio.run(signed_in(mine, known=before, learn=learn))
    text = [f"{shell_setup.HOST} {key.export_public_key().decode().strip()}" for key in learned]
    settings.SECRET_KEY_FALLBACKS = []
    assert text == [shell_setup.known_hosts()]
    asyncio.run(signed_in(mine, known=text[0]))
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        asyncio.run(signed_in(mine, known=before))


def test_whoever_offered_one_persons_key_does_not_sign_with_anothers() -> None:
    """Else the connection could be the first key's while the second one's owner sits at it."""

    async def tried() -> list[bool]:
        connection = shells._Connection(Shells(), ShellName("vision", "nb"))
        first, second = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        keys = (first, second, first)
        return [await connection.validate_public_key("me", key.convert_to_public()) for key in keys]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shells, "ssh_key_of", lambda _: PERSON)
        assert asyncio.run(tried()) == [True, False, True]
