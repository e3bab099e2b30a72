"""Whoever views somebody reads exactly what that person reads, and leaves nothing behind by reading.

Nothing is listed: addresses and roles come from the table, and what is right is what the person is answered.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import resolve
from django.utils import timezone

from apps.accounts.models import User
from portal.viewing import CLOSED
from tests.accounts.views import header_of, looking, somewhere
from tests.matrix import asking
from tests.matrix.scene import Scene
from tests.matrix.table import Cell, address, load
from tests.sample import every, sampled

pytestmark = pytest.mark.django_db
TABLE = load()
VIEWED = ("member", "lead", "manager")
OWN_TABLES = ("django_session", "accounts_personsession")
"""What a look writes of the engineer's own browser: that it was used."""
REHEARSED = ("quotas_quota",)
"""What a forecast writes and takes back before it answers (`apps.web.requests.rehearsals`)."""
_BANNER = re.compile(
    rb'<div class="viewing".*?</div>|hx-headers=\'[^\']*\'|class=" viewed"|(?<=class="console) viewed'
    rb'|name="key" value="[^"]*"|request [0-9a-f-]{36}|\s+(?=>)'
    rb"|(?<=notebook-)[a-z0-9]{10}|(?<=dev/uid: )[0-9a-f-]{36}|(?<=dev/template: )[0-9a-f]{16}",
    re.DOTALL,
)
"""The banner and its marks; what is new on each page: a form's key, a request's id, an object's name."""
ROWS = [row for row in TABLE.rows if any(key.startswith("GET") for key in TABLE.rows[row])]


@pytest.fixture(scope="module")
def looks(scene: Scene) -> Mapping[str, Client]:
    """An engineer's browser as each of these."""
    home = scene.here
    people = {"member": home.owner, "lead": home.lead, "manager": home.manager}
    engineer = User.objects.get(username="platform")
    return {role: looking(engineer, person) for role, person in people.items()}


OPEN = [row for row in ROWS if resolve(somewhere(address(row))).url_name not in CLOSED]


def read(row: str) -> list[Cell]:
    """The reads of an address by those who are viewed, each kind of answer."""
    return [cell for cell in TABLE.cells(row) if cell.method == "GET" and cell.role in VIEWED]


@contextmanager
def writes() -> Iterator[list[str]]:
    """The tables that are written to meanwhile."""
    found: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        written = re.match(r'\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+"?(\w+)', sql, re.IGNORECASE)
        found.extend([written[1]] if written else [])
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        yield found


def shown(answer: Any) -> tuple[int, bytes]:
    """Status and body, without the banner and without what differs between two requests."""
    status, body, _ = asking.identity(answer)
    return status, re.sub(rb"\s+", b"", _BANNER.sub(b"", body))


def differences(given: tuple[int, bytes], wanted: tuple[int, bytes]) -> str:
    """Where two answers part; "" where they are the same."""
    if given[0] != wanted[0]:
        return f"{given[0]} instead of {wanted[0]}"
    pairs = zip(given[1], wanted[1], strict=False)
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
    near = slice(max(0, place - 60), place + 120)
    return "" if given[1] == wanted[1] else f"{given[1][near]!r} instead of {wanted[1][near]!r}"


@pytest.mark.parametrize("row", every(3, OPEN))
def test_a_view_reads_what_the_person_reads_and_writes_nothing(
    scene: Scene, looks: Mapping[str, Client], row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    for cell in sampled(read(row), OPEN.index(row), 1):
        client = looks[cell.role]
        headers = header_of(client) if cell.part else {}
        wanted = asking.ask(scene, TABLE, cell, client=scene.pages[cell.role])
        with writes() as written:
            given = asking.ask(scene, TABLE, cell, client=client, headers=headers)
        assert differences(shown(given), shown(wanted)) == "", cell
        assert set(written) <= {*OWN_TABLES, *REHEARSED}, cell
        # The description of REST and a part are no frame: they name nobody.
        is_framed = b"<body data-now" in asking.body_of(wanted)
        assert (b"You see the portal as" in asking.body_of(given)) is is_framed


def test_it_can_fail(scene: Scene, looks: Mapping[str, Client]) -> None:
    row = "/notices/"
    cell = next(cell for cell in read(row) if cell.role == "member")
    own = asking.ask(scene, TABLE, cell, client=scene.pages["platform"])
    assert shown(own) != shown(asking.ask(scene, TABLE, cell, client=looks["member"]))
    with writes() as written:
        asking.ask(
            scene, TABLE, Cell("/notices/", "POST", "member", "none", "ok"), client=scene.pages["member"]
        )
    assert written
