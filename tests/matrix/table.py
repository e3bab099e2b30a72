"""The expected answers of `expected.yaml` as cells, and what is missing between them and what is served."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests import yamls
from tests.matrix import routes
from tests.matrix.scene import ROLES
from tests.sample import EXHAUSTIVE, every, sampled

SOURCE = Path(__file__).with_name("expected.yaml")
BRIEF = (("none", "own", "other"), ("anonymous", "member", "platform"))
"""The kinds of id and the roles with which HEAD is tried, which is as GET, and methods that an address lacks:
`gaps` compares what each view handles with the file, so one of each sort shows what the refusal says.
"""

ENDED = ("expired", "revoked")
"""Whose credential is refused before any id is looked at, as anonymous shows with each: once each."""

FOREIGN = frozenset(("member", kind) for kind in ("other", "nowhere", "crossed", "unknown"))
"""Roles and kinds of id that the sample tries with each request: whose things are foreign."""
OUTSIDE = frozenset((role, kind) for role in ("anonymous", "reader", "stranger") for kind in ("none", "own"))
"""Who may not write, and who is nobody; the sample tries every second of their requests."""
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Cell:
    """One request and the word for its expected answer; `row` is the address as the file writes it."""

    row: str
    method: str
    role: str
    kind: str
    expected: str
    body: Any = field(default=None, hash=False)
    accept: str = ""
    part: str = ""

    @property
    def is_page(self) -> bool:
        """Whether a browser asks it."""
        return not self.row.startswith(routes.API)

    def __str__(self) -> str:
        what = f"{self.method} {self.row}{' ' + self.accept if self.accept else ''}"
        return f"{what}{' #' + self.part if self.part else ''} as {self.role}, id {self.kind}"


@dataclass(frozen=True)
class Table:
    """The file, read."""

    answers: Mapping[str, Any]
    groups: Mapping[str, list[str]]
    patterns: Mapping[str, Mapping[str, Any]]
    ids: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, Mapping[str, Any]]
    _cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict, init=False, compare=False)
    _patterns: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, compare=False)
    """What was made of a row, and of a pattern with all that it is like: most modules ask for all of them."""

    def kinds(self, row: str) -> list[str]:
        """The kinds of id that an address is tried with; one without an id has none."""
        return str(self.ids[self.rows[row].get("ids", "none")]["kinds"]).split()

    def expected(self, pattern: str, role: str, kind: str) -> str:
        """The word for the answer; a pattern that leaves a role or a kind open is an error of the file."""
        found: Any = None
        for who, answer in self._merged(pattern).items():
            named = {role for word in who.split() for role in self.groups.get(word, [word])}
            found = answer if role in named else found
        if isinstance(found, Mapping):
            kinds = {one: answer for several, answer in found.items() for one in several.split()}
            found = kinds.get(kind, kinds.get("else"))
        if found not in self.answers:
            raise LookupError(f"{pattern} does not say what {role} gets with an id that is {kind}")
        return str(found)

    def _merged(self, pattern: str) -> dict[str, Any]:
        if pattern not in self._patterns:
            self._patterns[pattern] = self._laid_over(pattern)
        return self._patterns[pattern]

    def _laid_over(self, pattern: str) -> dict[str, Any]:
        own = dict(self.patterns[pattern])
        like = own.pop("like", None)
        # What is said here comes after all that it is like, also where it says of the same role.
        before = self._merged(like) if like else {}
        return {who: answer for who, answer in before.items() if who not in own} | own

    def cells(self, row: str) -> Sequence[Cell]:
        """Every request of one address; with a query, only those that the row names."""
        if row not in self._cells:
            self._cells[row] = tuple(self._all_of(row))
        return self._cells[row]

    def _all_of(self, row: str) -> Iterator[Cell]:
        entry = self.rows[row]
        for method in routes.METHODS if "?" not in row else [m for m in routes.METHODS if m in entry]:
            yield from self._of(row, method, entry.get(method) or self._default(row, method))
        for key, asked in entry.items():
            method, _, accept = key.partition(" ")
            if accept:
                yield from self._of(row, method, asked, accept=accept)
        for part in str(entry.get("parts", "")).split():
            yield from self._of(row, "GET", f"part of {entry['GET']}", part=part)

    def sample(self, row: str) -> Sequence[Cell]:
        """The cells of one address that a run asks: the first of every (method, answer, media type, part),
        those of FOREIGN, every second of OUTSIDE, every role that writes to what is its own, and one with a
        method that the address lacks. All of them if exhaustive.
        """
        cells = self.cells(row)
        if EXHAUSTIVE:
            return cells
        known = [cell for cell in cells if self._is_known(cell)]
        firsts = {(cell.method, cell.expected, cell.accept, cell.part): cell for cell in reversed(known)}
        foreign = [cell for cell in known if (cell.role, cell.kind) in FOREIGN]
        outside = [cell for cell in known if (cell.role, cell.kind) in OUTSIDE]
        own = [cell for cell in known if _is_own_write(cell)]
        turn = self._turn(row)
        chosen = {*firsts.values(), *foreign, *every(2, outside, turn), *own}
        lacking = [cell for cell in cells if not self._is_known(cell)]
        return [*(cell for cell in known if cell in chosen), *sampled(lacking, turn, 1)]

    def _is_known(self, cell: Cell) -> bool:
        return bool(cell.accept or cell.part) or self._has(cell.row, cell.method)

    def _turn(self, row: str) -> int:
        return list(self.rows).index(row)

    def _has(self, row: str, method: str) -> bool:
        return method in self.rows[row] and method != "HEAD"

    def _default(self, row: str, method: str) -> Any:
        """HEAD is as GET; what an address does not know is refused as its `else` says, or its surface's."""
        entry = self.rows[row]
        if method == "HEAD" and "GET" in entry and row.startswith(routes.API):
            return entry["GET"]
        surface = "REST" if row.startswith(routes.API) else "pages"
        if method == "OPTIONS":
            return f"{surface}: no OPTIONS"
        return entry.get("else", f"{surface}: no {'read' if method in ('GET', 'HEAD') else 'write'}")

    def _of(self, row: str, method: str, asked: Any, **more: str) -> Iterator[Cell]:
        given = asked if isinstance(asked, dict) else {"as": asked}
        is_known = self._has(row, method) or more
        kinds, roles = (self.kinds(row), ROLES) if is_known else BRIEF
        kinds = [kind for kind in kinds if kind in self.kinds(row)]
        for kind in kinds:
            for role in roles if kind == kinds[0] else [role for role in roles if role not in ENDED]:
                word = self.expected(given["as"], role, kind)
                word = given.get("ok", word) if word == "ok" else word
                yield Cell(row, method, role, kind, word, given.get("body"), **more)


def _is_own_write(cell: Cell) -> bool:
    return cell.method in WRITES and cell.kind in ("none", "own") and cell.role not in ENDED


@cache
def load() -> Table:
    """The table of the product."""
    return read(SOURCE.read_text())


def read(text: str) -> Table:
    """A table out of YAML."""
    document = yamls.document(text)
    return Table(**{name: document[name] for name in ("answers", "groups", "patterns", "ids", "rows")})


def address(row: str) -> str:
    """The row's address without its query."""
    return row.partition("?")[0]


def gaps(table: Table, views: Mapping[str, Any], described: Mapping[str, set[str]]) -> list[str]:
    """What is served without a row, has a row without being served, or differs from OpenAPI."""
    rows = {address(row) for row in table.rows}
    found = [f"{route} is served and has no row" for route in views if route not in rows]
    found += [f"{row} has a row and is not served" for row in rows if row not in views]
    undescribed = {row for row in rows if table.rows.get(row, {}).get("undescribed")}
    rest = {route: view for route, view in views.items() if route.startswith(routes.API)}
    for route, view in rest.items():
        told = described.get(routes.nameless(route), set())
        if route not in undescribed and told != routes.handlers(view) - {"HEAD"}:
            found.append(f"{route} answers {sorted(routes.handlers(view))}, OpenAPI has {sorted(told)}")
        if route in undescribed and told:
            found.append(f"{route} is said to be undescribed, OpenAPI has {sorted(told)}")
        listed = {key for key in table.rows.get(route, {}) if key in routes.METHODS}
        if route in rows and route not in undescribed and listed != routes.handlers(view) - {"HEAD"}:
            found.append(f"{route} answers {sorted(routes.handlers(view))}, its row has {sorted(listed)}")
    known = {routes.nameless(route) for route in rest}
    return found + [f"OpenAPI has {path}, which is not served" for path in described if path not in known]


def filled(text: str, place: Mapping[str, str]) -> str:
    """A text with its {names} replaced; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: place.get(found[1], found[0]), text)


def filled_body(body: Any, place: Mapping[str, str]) -> Any:
    """A body with the {names} in its texts replaced."""
    if isinstance(body, dict):
        return {key: filled_body(value, place) for key, value in body.items()}
    if isinstance(body, list):
        return [filled_body(value, place) for value in body]
    return filled(body, place) if isinstance(body, str) else body
