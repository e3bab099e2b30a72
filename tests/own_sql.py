"""Which functions of the product hold SQL that databases treat differently, and which of them a run called.

A plugin: `pytest --own-sql` traces calls, prints every such function with the test that called it first, and
fails if one was called by none. The gate runs it on PostgreSQL: so what is locked, drawn, partitioned or
prepared by statements of our own is proven there, while the rest of the domain runs on SQLite alone.
"""

import ast
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

import pytest

from tests.house.reading import ROOT, sources

OWN = frozenset({"cursor", "execute", "executemany", "select_for_update", "raw", "extra", "RawSQL", "RunSQL"})
"""Statements written by hand, and locks."""
OF_TIME = frozenset({"Trunc", "TruncDay", "TruncDate", "TruncHour", "TruncMonth", "Extract", "DateTimeRange"})
CONFLICTS = frozenset({"ignore_conflicts", "update_conflicts"})
EXPRESSIONS = frozenset({"Func", "Transform", "Lookup", "Aggregate"})
PLACED = frozenset({"template", "function", "lookup_name"})
OF_SQLITE = "as_sqlite", "INSERT OR IGNORE"
"""A function by this name, or with this statement, is never called on PostgreSQL."""


@dataclass(frozen=True, order=True)
class Place:
    """A function, as a frame knows it: a decorated one begins at its first decorator."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


def _own_expressions(trees: dict[str, ast.Module]) -> frozenset[str]:
    """Classes of the product that say how an expression is written in SQL."""
    return frozenset(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name | ast.Attribute) for base in node.bases)
        and any(
            isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
            and each.targets[0].id in PLACED
            for each in node.body
        )
        and EXPRESSIONS & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    )  # fmt: skip


def _holds(node: ast.AST, own: frozenset[str]) -> bool:
    """Whether this very node is SQL of our own."""
    if isinstance(node, ast.ExceptHandler):
        return node.type is not None and "IntegrityError" in ast.unparse(node.type)
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func).rpartition(".")[2]
    known = OWN | OF_TIME | own | {"Func"}
    return called in known or any(each.arg in CONFLICTS for each in node.keywords)


def _prepared(tree: ast.Module) -> Iterator[ast.Lambda | str]:
    """What builds a prepared query: a lambda in place, or a function by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Prepared", "PreparedUpdate"):
            built = node.args[0]
            if isinstance(built, ast.Lambda):
                yield built
            elif isinstance(built, ast.Name):
                yield built.id


Made = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _functions(node: ast.AST, inside: Made | None = None) -> Iterator[tuple[Made, ast.AST]]:
    """Each node below, with the innermost function that it stands in."""
    for child in ast.iter_child_nodes(node):
        here = child if isinstance(child, Made) else inside
        if inside is not None:
            yield inside, child
        yield from _functions(child, here)


def owned(file: str, tree: ast.Module, own: frozenset[str]) -> Iterator[Place]:
    """The functions of one module that hold SQL of our own, and the builders of its prepared queries."""
    built = list(_prepared(tree))
    names = {each for each in built if isinstance(each, str)}
    found: list[Made] = [each for each in built if isinstance(each, ast.Lambda)]
    found += [inside for inside, node in _functions(tree) if _holds(node, own)]
    found += [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
    for node in found:
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        if name != OF_SQLITE[0] and OF_SQLITE[1] not in ast.unparse(node):
            yield Place(file, first, name)


@cache
def places() -> frozenset[Place]:
    """All of the product's."""
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in sources()
        if path.relative_to(ROOT).parts[0] in ("apps", "portal")
    }
    own = _own_expressions(trees)
    return frozenset(place for file, tree in trees.items() for place in owned(file, tree, own))


class Calls:
    """Which test called each place first; with xdist, gathered from the workers."""

    def __init__(self) -> None:
        self._test = "collection"
        self._wanted: dict[str, dict[int, Place]] = {}
        self.first: dict[str, str] = {}
        for place in places():
            self._wanted.setdefault(str(ROOT / place.file), {})[place.line] = place

    def __call__(self, frame: FrameType, *_: Any) -> None:
        """As a trace function: it asks for no lines, so only calls cost."""
        wanted = self._wanted.get(frame.f_code.co_filename)
        place = wanted.get(frame.f_code.co_firstlineno) if wanted else None
        if place is not None:
            self.first.setdefault(str(place), self._test)

    def pytest_sessionstart(self) -> None:
        """From here on, in every thread."""
        threading.settrace(self)
        sys.settrace(self)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Its fixtures count as the test."""
        self._test = nodeid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of xdist tells what its tests called."""
        for place, test in getattr(node, "workeroutput", {}).get("own_sql", {}).items():
            self.first.setdefault(place, test)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker reports; whoever started them judges."""
        sys.settrace(None)
        threading.settrace(None)
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["own_sql"] = self.first
        elif self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The list: each place and its test, then those without one as errors."""
        for place in sorted(self.first):
            terminalreporter.write_line(f"own SQL: {place} <- {self.first[place]}")
        for place in self.missing():
            terminalreporter.write_line(f"E  own SQL that no test called: {place}")
        known = len(places())
        terminalreporter.write_line(f"own SQL: {known - len(self.missing())} of {known} functions called")

    def missing(self) -> list[str]:
        """The places that nobody called."""
        return sorted(str(place) for place in places() if str(place) not in self.first)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--own-sql", action="store_true", help="every function with SQL of our own is called")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("own_sql"):
        config.pluginmanager.register(Calls())
