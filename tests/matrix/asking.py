"""One cell asked, and what is wrong with its answer."""

import json
import re
from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from django.test import Client
from django.test.client import ClientHandler

from tests.matrix.routes import template
from tests.matrix.scene import WATCHERS, Scene, undone
from tests.matrix.table import Cell, Table, filled, filled_body

PER_REQUEST = ("X-Request-Id", "Date", "RateLimit", "RateLimit-Policy")
_MASKED = re.compile(
    rb'nonce="[^"]*"|name="csrfmiddlewaretoken" value="[^"]*"|data-now="[^"]*"|\d\d:\d\d now'
    rb'|"instance":"urn:uuid:[^"]*"'
)


def place_of(scene: Scene, table: Table, cell: Cell) -> dict[str, str]:
    """What stands in the cell's address and body."""
    resource = str(table.rows[cell.row].get("ids", "none"))
    place = scene.place(resource.partition(" ")[0], cell.kind, cell.role)
    changed: Mapping[str, str] = table.ids[resource].get(cell.kind, {})
    return {**place, **changed}


def ask(scene: Scene, table: Table, cell: Cell, **how: Any) -> Any:
    """Send the cell's request (see `send`); whatever it writes is undone."""
    with undone():
        return send(scene, table, cell, **how)


def send(
    scene: Scene,
    table: Table,
    cell: Cell,
    *,
    garbled: bool = False,
    is_checked: bool = False,
    client: Client | None = None,
    place: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Send the cell's request, as its role or with another credential (`client`); `place` is as it was before
    an earlier one.

    `garbled`: with a body that cannot be read, and without If-Match. `is_checked`: as a browser that another
    site sent. `headers` join those that the cell has.
    """
    place = place or place_of(scene, table, cell)
    path = filled(template(cell.row), place)
    if cell.part:
        path += f"{'&' if '?' in path else '?'}part={cell.part}"
    known = client or (scene.pages if cell.is_page else scene.api)[cell.role]
    body = ("{", "application/json") if garbled else _encoded(cell, filled_body(cell.body, place))
    told = {**_headers(cell, is_matched=not garbled), **(headers or {})}
    answer = twin(known, is_checked=is_checked).generic(cell.method, path, *body, headers=told)
    answer.close()
    return answer


def twin(client: Client, *, is_checked: bool = False) -> Client:
    """The same credential: what the answer does to the cookies is undone too."""
    twin = copy(client)
    if is_checked:
        twin.handler = ClientHandler(enforce_csrf_checks=True)
    twin.cookies = SimpleCookie({name: morsel.value for name, morsel in client.cookies.items()})
    return twin


def _headers(cell: Cell, *, is_matched: bool) -> dict[str, str]:
    headers = {"Accept": cell.accept} if cell.accept else {}
    if cell.part:
        headers["HX-Request"] = "true"
    if is_matched and cell.method in ("PUT", "PATCH", "DELETE"):
        headers["If-Match"] = "*"
    return headers


def _encoded(cell: Cell, body: Any) -> tuple[str, str]:
    if cell.is_page:
        return urlencode(body or {}), "application/x-www-form-urlencoded"
    return ("" if body is None else json.dumps(body)), "application/json"


def wrong(scene: Scene, table: Table, cell: Cell, answer: Any) -> str:
    """What differs from what is expected, or ""."""
    status, _, code = str(table.answers[cell.expected]).partition(" ")
    told = f"{answer.status_code} {code_of(answer)}".strip()
    is_other_code = code and cell.method != "HEAD" and code_of(answer) != code
    if str(answer.status_code) != status or is_other_code:
        return f"{cell}: {told} instead of {cell.expected} ({status} {code})"
    leaked = named(answer, _kept_from(scene, cell))
    return f"{cell}: names {leaked}" if leaked else ""


def named(answer: Any, secrets: Iterable[str]) -> list[str]:
    """The secrets that the answer holds as words of their own: random texts hold short names by chance."""
    text = _steady(answer)
    return [each for each in secrets if (secret := each.encode()) in text and _is_word(secret, text)]


def _is_word(secret: bytes, text: bytes) -> bool:
    return bool(re.search(rb"(?<![^\W_])" + re.escape(secret) + rb"(?![^\W_])", text))


def _kept_from(scene: Scene, cell: Cell) -> tuple[str, ...]:
    return () if cell.role in WATCHERS or cell.expected == "sign-in" else scene.sides(cell.role)[1].secrets


def code_of(answer: Any) -> str:
    """The code of a problem; a page names its problem by the link to it."""
    if answer.get("Content-Type") == "application/problem+json" and answer.content:
        return str(json.loads(answer.content)["code"])
    found = re.search(rb"/problems/(\w+)", body_of(answer)) if answer.status_code >= 400 else None
    return found[1].decode() if found else ""


def body_of(answer: Any) -> bytes:
    """What was answered; a stream is not read."""
    return b"" if answer.streaming else bytes(answer.content)


def identity(answer: Any) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
    """All that tells two answers apart, but for what differs between any two requests."""
    headers = {name: value for name, value in answer.items() if name not in PER_REQUEST}
    headers["Content-Security-Policy"] = re.sub(
        r"nonce-[^']*", "", headers.get("Content-Security-Policy", "")
    )
    return answer.status_code, _steady(answer), tuple(sorted(headers.items()))


def _steady(answer: Any) -> bytes:
    return _masked(body_of(answer))


@lru_cache(maxsize=64)
def _masked(body: bytes) -> bytes:
    """Many roles get the same answer, and the API's document is long."""
    return _MASKED.sub(b"", body)
