"""Which functions of the product hold SQL that databases treat differently, and which of them a run called.

A plugin: `pytest --own-sql` has each tell that it is called, prints them with the test that called them
first, and fails if one was called by none. The gate runs it on PostgreSQL: so what is locked, drawn,
partitioned or prepared by statements of our own is proven there, while the rest of the domain runs on SQLite
alone.
"""

import ast
import builtins
import gc
import importlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.house.reading import ROOT, Function, sources

OWN = frozenset({"cursor", "execute", "executemany", "select_for_update", "raw", "extra", "RawSQL", "RunSQL"})
"""Statements written by hand, and locks."""
OF_TIME = frozenset({"Trunc", "TruncDay", "TruncDate", "TruncHour", "TruncMonth", "Extract", "DateTimeRange"})
CONFLICTS = frozenset({"ignore_conflicts", "update_conflicts"})
EXPRESSIONS = frozenset({"Func", "Transform", "Lookup", "Aggregate"})
PLACED = frozenset({"template", "function", "lookup_name"})
TOLD = "own_sql_called"
"""The name, among the builtins, of what hears the calls."""
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
    called = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    is_known = called == "Func" or called in OWN or called in OF_TIME or called in own
    return is_known or any(each.arg in CONFLICTS for each in node.keywords)


def _prepared(tree: ast.Module) -> Iterator[ast.Lambda | str]:
    """What builds a prepared query: a lambda in place, or a function by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Prepared", "PreparedUpdate"):
            built = node.args[0]
            if isinstance(built, ast.Lambda):
                yield built
            elif isinstance(built, ast.Name):
                yield built.id


Made = Function | ast.Lambda


def _first_line(node: Made) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


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
        first = _first_line(node)
        if name != OF_SQLITE[0] and OF_SQLITE[1] not in ast.unparse(node):
            yield Place(file, first, name)


@cache
def places() -> frozenset[Place]:
    """All of the product's."""
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in sources()
        if path.relative_to(ROOT).parts[0] in ("apps", "portal")
    }
    own = _own_expressions(_trees(texts, EXPRESSIONS))
    words = OWN | OF_TIME | CONFLICTS | own | {"Func", "IntegrityError", "Prepared", "PreparedUpdate"}
    trees = _trees(texts, words)
    return frozenset(place for file, tree in trees.items() for place in owned(file, tree, own))


def _trees(texts: dict[str, str], words: frozenset[str]) -> dict[str, ast.Module]:
    """Of the files in which one of the words stands: a text is searched far sooner than a tree is made."""
    standing = re.compile(rf"\b({'|'.join(sorted(words))})\b")
    return {file: ast.parse(text) for file, text in texts.items() if standing.search(text)}


class Calls:
    """Which test called each place first; with xdist, gathered from the workers."""

    def __init__(self) -> None:
        self._test = "collection"
        self.first: dict[str, str] = {}

    def __call__(self, place: str) -> None:
        """A place was called."""
        self.first.setdefault(place, self._test)

    def pytest_sessionstart(self) -> None:
        """From here on each place tells that it is called."""
        setattr(builtins, TOLD, self)
        instrument(places())

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


def instrument(wanted: Collection[Place]) -> None:
    """Every function that is or contains a wanted place gets code that tells it.

    A tracer would look at each call of the run, and took longer than the tests themselves.
    """
    telling: dict[tuple[str, int, str], CodeType] = {}
    for file in {place.file for place in wanted}:
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        path = str(importlib.import_module(name).__file__)
        tree = _Telling([place for place in wanted if place.file == file]).visit(
            ast.parse(Path(path).read_text())
        )
        made = compile(ast.fix_missing_locations(tree), path, "exec")
        telling |= {_place_of(code): code for code in _codes(made) if _tells(code)}
    for each in gc.get_objects():
        if type(each) is FunctionType:  # isinstance would wake lazy objects
            each.__code__ = telling.get(_place_of(each.__code__), each.__code__)


class _Telling(ast.NodeTransformer):
    """Each wanted function begins with a call of TOLD."""

    def __init__(self, wanted: Collection[Place]) -> None:
        self._wanted = {(place.line, place.name): str(place) for place in wanted}

    def _told(self, node: Made, name: str) -> ast.Call | None:
        place = self._wanted.get((_first_line(node), name))
        return ast.Call(ast.Name(TOLD, ast.Load()), [ast.Constant(place)], []) if place else None

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        if told := self._told(node, "<lambda>"):
            both = ast.Tuple([told, node.body], ast.Load())
            node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def visit_FunctionDef(self, node: Function) -> ast.AST:
        self.generic_visit(node)
        if told := self._told(node, node.name):
            node.body.insert(0, ast.Expr(told))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 ast calls it so


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _tells(code: CodeType) -> bool:
    return any(TOLD in each.co_names for each in _codes(code))


def _place_of(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--own-sql", action="store_true", help="every function with SQL of our own is called")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("own_sql"):
        config.pluginmanager.register(Calls())
