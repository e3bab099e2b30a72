"""Every page of the matrix, the request that goes furthest in it, and what it looks for in a query."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.http import QueryDict

from tests.matrix import asking, routes
from tests.matrix.scene import Scene
from tests.matrix.table import Cell, address, filled, load

TABLE = load()
PAGES = [row for row in TABLE.rows if not row.startswith(routes.API) and not row.startswith("/live/")]
READ = [row for row in PAGES if "GET" in TABLE.rows[row]]


@contextmanager
def hearing() -> Iterator[set[str]]:
    """The names that are looked for in queries and forms meanwhile."""
    names: set[str] = set()
    plain = {how: getattr(QueryDict, how) for how in ("get", "getlist", "__getitem__", "__contains__")}

    def listening(how: str) -> Any:
        def read(self: QueryDict, key: Any, *rest: Any) -> Any:
            names.add(str(key))
            return plain[how](self, key, *rest)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for how in plain:
            patch.setattr(QueryDict, how, listening(how))
        yield names


def usual(row: str, method: str) -> Cell:
    """The request that goes furthest: as somebody who is let in, with an id of their own."""
    cells = [c for c in TABLE.cells(row) if c.method == method and c.kind in ("own", "none") and not c.part]
    welcome = [cell for cell in cells if str(TABLE.answers[cell.expected])[:3] in ("200", "303", "422")]
    order = ("platform", "lead", "manager", "member", "anonymous")
    known = [cell for cell in welcome or cells if cell.role in order]
    return min(known, key=lambda cell: order.index(cell.role))


def at(scene: Scene, cell: Cell) -> str:
    place = asking.place_of(scene, TABLE, cell)
    return filled(routes.template(address(cell.row)), place)
