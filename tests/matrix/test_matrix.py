"""Address x method x role x kind of id, as `expected.yaml` has it; and no address without a row.

`make test` asks a sample of each address (`Table.sample`), `make verify SUITE=matrix` everything.
"""

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from tests.matrix import asking, routes
from tests.matrix.scene import NOBODY, WATCHERS, Scene
from tests.matrix.table import Cell, gaps, load
from tests.sample import sampled

pytestmark = pytest.mark.django_db
TABLE = load()
ALIKE = ({"other", "nowhere"}, {"crossed", "unknown"})
"""Kinds of id between which nobody may find a difference but who sees everything. Where an address has no
`nowhere`, all of them.
"""


@pytest.mark.parametrize("row", TABLE.rows)
def test_every_cell_answers_as_expected(scene: Scene, row: str) -> None:
    answers = {cell: asking.ask(scene, TABLE, cell) for cell in TABLE.sample(row)}
    problems = [asking.wrong(scene, TABLE, cell, answer) for cell, answer in answers.items()]
    assert "\n".join(filter(None, problems)) == ""
    assert told_apart(answers) == []


def told_apart(answers: dict[Cell, Any]) -> list[str]:
    """Where a foreign id and an unknown one are answered differently."""
    kinds = {cell.kind for cell in answers}
    seen = defaultdict(set)
    for cell, answer in answers.items():
        if cell.role in (*NOBODY, *WATCHERS) or cell.expected in ("sign-in", "token"):
            continue
        for alike in ALIKE if "nowhere" in kinds else [set().union(*ALIKE)]:
            if cell.kind in alike:
                place = (cell.method, cell.role, cell.accept, cell.part, *sorted(alike & kinds))
                seen[place].add(asking.identity(answer))
    return [f"{place}: {len(found)} answers" for place, found in seen.items() if len(found) > 1]


def test_every_address_has_a_row_and_openapi_agrees() -> None:
    assert gaps(TABLE, routes.served(), routes.described()) == []


PAGES = [row for row in TABLE.rows if not row.startswith(routes.API) and "?" not in row]
PARTIALS = {
    name
    for source in (settings.BASE_DIR / "templates").rglob("*.html")
    for name in re.findall(r"partialdef (\w+)", source.read_text())
}


@pytest.mark.parametrize("row", [row for row in PAGES if "GET" in TABLE.rows[row]])
def test_a_page_serves_no_part_without_a_row(scene: Scene, row: str) -> None:
    shown = [cell for cell in TABLE.cells(row) if cell.method == "GET" and not cell.part]
    cell = next(cell for cell in shown if cell.role == "platform" and cell.kind in ("own", "none"))
    own = set(str(TABLE.rows[row].get("parts", "")).split())
    tried = {*own, *sampled(sorted(PARTIALS - own), PAGES.index(row), 1)}
    asked = {part: asking.ask(scene, TABLE, replace(cell, part=part)) for part in tried}
    pages = {part: a for part, a in asked.items() if a.status_code == 200 and "html" in a["Content-Type"]}
    served = {part for part, a in pages.items() if b"<html" not in asking.body_of(a)}
    assert served == own


NAMED = [
    f"/api/v1/{name}"
    for name in (
        "workloads", "quotas", "service-accounts", "grants", "quota-requests", "budgets",
        "templates/<str:key>/workloads",
    )
]  # fmt: skip
UNREAD = [row for row in TABLE.rows if row.startswith(routes.API) and row not in NAMED]
"""Addresses whose right to write does not depend on a tenant that the body names."""


@pytest.mark.parametrize("row", UNREAD)
def test_who_may_not_write_is_refused_before_the_body_is_read(scene: Scene, row: str) -> None:
    refused = [
        cell
        for cell in TABLE.cells(row)
        if cell.body is not None
        and cell.expected in ("token", "scope", "role", "hidden")
        and cell.kind in ("own", "none", "other")
    ]
    late = []
    for cell in sampled(refused, UNREAD.index(row), 1):
        answer = asking.ask(scene, TABLE, replace(cell, body={"unreadable": "{"}), garbled=True)
        late.append(asking.wrong(scene, TABLE, cell, answer))
    assert "\n".join(filter(None, late)) == ""


@pytest.mark.parametrize("row", [row for row in PAGES if "POST" in TABLE.rows[row]])
def test_a_form_from_elsewhere_is_refused(scene: Scene, row: str) -> None:
    cells = [cell for cell in TABLE.cells(row) if cell.method == "POST" and cell.kind in ("own", "none")]
    cell = next(cell for cell in cells if cell.role == "member")
    assert asking.ask(scene, TABLE, cell, is_checked=True).status_code == 403


def test_a_session_writes_over_rest_only_with_the_token_of_its_page(scene: Scene) -> None:
    client = asking.twin(scene.pages["member"], is_checked=True)
    body = {"name": "nightly", "scopes": ["workloads:read"]}
    assert client.get("/api/v1/me").status_code == 200
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert (answer.status_code, asking.code_of(answer)) == (403, "not_allowed")
