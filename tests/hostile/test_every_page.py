"""Every page, with hostile queries and forms: never a server error, never more work than a body of REST may
cost. What a page reads is heard from it, so no page and no field is forgotten.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict

from tests.cost import calm_ms
from tests.hostile import bounds, corpus
from tests.hostile.bounds import LARGEST_ANSWER, PART, PART_BUDGET_MS
from tests.hostile.page_cells import PAGES, READ, TABLE, at, hearing, usual
from tests.matrix import asking
from tests.matrix.scene import Scene, undone
from tests.matrix.table import Cell, filled_body
from tests.sample import every, sampled

pytestmark = pytest.mark.django_db
SENT = [row for row in PAGES if "POST" in TABLE.rows[row]]
FORM = "application/x-www-form-urlencoded"
OURS = {"csrfmiddlewaretoken"}
SOME = 1

DAYS = ["0001-01-01", "9999-12-31", "0001-01-01T00:00", "9999-12-31T23:59", "24:00", "2026-02-30"]
NUMBERS = ["", "-1", "9" * 30, str(2**31), str(2**63), "1e308", "1e999999999", "1e-999999999", "NaN", "1.5"]
WORDS = ["a\0b", "Europe/../UTC", "/etc/passwd", "localtime", ",", "a=b,!c in (", "🙂" * 200, "x" * 5000]
LONG = "x" * 60_000
"""A head of 64 KiB is the most that the web process reads."""
VALUES = [*corpus.MONTHS, *DAYS, *NUMBERS, *WORDS, *corpus.TEXTS, *corpus.CURSORS, *corpus.TIMES]
FULL = 900_000 // PART
"""Characters that are still a form of at most 1 MiB; none of them is written in three."""
LARGE = [
    "a" * FULL, "9" * FULL, "." * FULL, "-" * FULL, "+" * FULL, "0." + "0" * FULL, "_a" * (FULL // 2),
    "a." * (FULL // 2), "1:" * (FULL // 2), "a+" * (FULL // 2),
]  # fmt: skip
DIFFERENT = "".join(f"{number:05x},{number:05x}+" for number in range(FULL // 12))
"""No two words of it are the same, between commas as between spaces."""


def chosen(row: str, names: set[str]) -> Sequence[tuple[int, str]]:
    """The fields that are tried, numbered: every eighth, beginning at another one on each page."""
    return every(8, list(enumerate(sorted(names))), PAGES.index(row))


@pytest.mark.parametrize("row", READ)
def test_no_query_of_a_page_is_too_much_for_it(scene: Scene, row: str) -> None:
    cell = usual(row, "GET")
    path, client, found = at(scene, cell), scene.pages[cell.role], []

    def ask(query: dict[str, str]) -> Any:
        with undone():
            answer = asking.twin(client).get(path, query)
            answer.close()
        return answer

    with hearing() as names:
        for part in ["", *TABLE.rows[row].get("parts", "").split()]:
            ask({"part": part} if part else {})
    for number, name in chosen(row, names):
        values = [*sampled(VALUES, number, SOME), LONG]
        found += [wrong(ask({name: value}), name, value) for value in values]
    assert "\n".join(filter(None, found)) == ""


@pytest.mark.parametrize("row", SENT)
def test_no_form_is_too_much_for_its_page(scene: Scene, row: str) -> None:
    cell = usual(row, "POST")
    path, client, found = at(scene, cell), scene.pages[cell.role], []
    body = {key: str(value) for key, value in filled_body(cell.body or {}, place(scene, cell)).items()}

    def send(name: str, value: str, *, is_plain: bool = False) -> Any:
        # A large value is written as it is: encoded it would be three times as long.
        encoded = value if is_plain else urlencode({"": value}).removeprefix("=")
        rest = urlencode({key: each for key, each in body.items() if key != name})
        with undone():
            answer = asking.twin(client).post(path, f"{rest}&{name}={encoded}", FORM)
            answer.close()
        return answer

    def measured(name: str, value: str) -> str:
        answers: list[Any] = []
        spent = calm_ms(lambda: answers.append(send(name, value, is_plain=True)), PART_BUDGET_MS)
        size, problem = len(asking.body_of(answers[-1])), wrong(answers[-1], name, value[:9])
        # What was typed stands in the form that comes back; of a choice also in what is wrong with it.
        is_dear = spent > PART_BUDGET_MS or size > 2 * FULL + LARGEST_ANSWER
        return f"{name}={value[:9]}: {spent:.0f} ms, {size} bytes" if is_dear else problem

    with hearing() as names:
        send("nothing", "")
    for number, name in chosen(row, names - OURS):
        found += [wrong(send(name, value), name, value) for value in sampled(VALUES, number, SOME)]
    for number, name in sampled(chosen(row, names - OURS), PAGES.index(row), 1):
        found += [measured(name, value) for value in sampled([DIFFERENT, *LARGE], number, 1)]
    assert "\n".join(filter(None, found)) == ""


def wrong(answer: Any, name: str, value: str) -> str:
    """As for any form; the clusters of the scene are nowhere."""
    return "" if asking.code_of(answer) == "cluster_unavailable" else bounds.wrong(answer, name, value)


def place(scene: Scene, cell: Cell) -> dict[str, str]:
    return asking.place_of(scene, TABLE, cell)


def test_pages_are_heard() -> None:
    with hearing() as names:
        query = QueryDict("a=1")
        assert (query.get("a"), query.getlist("b"), "c" in query) == ("1", [], False)
    assert names == {"a", "b", "c"}
