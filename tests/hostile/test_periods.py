"""Every month, day and time that an address takes, at the ends of the calendar: refused by its name, or
within what can be reckoned with; never a server error, and never another period in its place.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from portal.api.declared.queries import Moment
from tests.hostile.page_cells import READ, TABLE, at, hearing, usual
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import Cell, load
from tests.sample import every

pytestmark = pytest.mark.django_db
PERIODS = ("month", "at")
"""By which pages and their files are asked for a period."""
ENDS = ("9999-12", "0001-01", "9999-12-31", "0001-01-01", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
NEVER = ("9999-12", "0001-01", "0001-01-01", "0001-01-01T00:00:00Z")
"""What is no period anywhere."""
REST = [
    (row, each.name)
    for row, view in routes.served().items()
    if "GET" in routes.handlers(view) and hasattr(view.cls, "query")
    for each in view.cls.query("GET")
    if isinstance(each, Moment) or each.name == "month"
]


def asked(scene: Scene, cell: Cell, query: dict[str, str]) -> Any:
    client = (scene.pages if cell.is_page else scene.api)[cell.role]
    with undone():
        answer = asking.twin(client).get(at(scene, cell), query)
        answer.close()
    return answer


def wrong(scene: Scene, cell: Cell, name: str, more: dict[str, str]) -> Iterator[str]:
    for value in ENDS:
        answer = asked(scene, cell, {**more, name: value})
        if answer.status_code >= 500 or (value in NEVER and not is_refused(answer, name)):
            yield f"{cell.row} {more} {name}={value}: {answer.status_code}"


def is_refused(answer: Any, name: str) -> bool:
    return answer.status_code == 400 and f"{name} is " in asking.body_of(answer).decode()


def test_addresses_of_rest_refuse_a_period_that_is_none_by_its_name(scene: Scene) -> None:
    table, found = load(), list[str]()
    assert {name for _, name in REST} >= {"month", "from", "to", "since", "until", "created_from"}
    for row, name in REST:
        cells = [cell for cell in table.cells(row) if cell.method == "GET" and cell.kind in ("own", "none")]
        welcome = [cell for cell in cells if str(table.answers[cell.expected])[:3] == "200"]
        found += wrong(scene, welcome[0], name, {})
    assert "\n".join(found) == ""


def test_pages_and_their_files_refuse_a_period_that_is_none_by_its_name(scene: Scene) -> None:
    found, heard = list[str](), set[tuple[str, str]]()
    for row in every(2, READ):
        cell = usual(row, "GET")
        for part in ["", "lines", *TABLE.rows[row].get("parts", "").split()]:
            more = {"part": part} if part else {}
            with hearing() as names:
                asked(scene, cell, more)
            for name in names & {*PERIODS}:
                heard.add((row, name))
                found += wrong(scene, cell, name, more)
    assert {name for _, name in heard} == {*PERIODS}
    assert "\n".join(found) == ""
