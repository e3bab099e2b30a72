"""What counts as SQL of our own, that the gate wants called on PostgreSQL (tests/own_sql.py)."""

import ast
import asyncio
import builtins
import importlib
import re
from pathlib import Path

import pytest

from tests import own_sql
from tests.house.reading import ROOT
from tests.own_sql import Calls, owned, places


def names(source: str, own: frozenset[str] = frozenset()) -> list[str]:
    return sorted({place.name for place in owned("x.py", ast.parse(source), own)})


@pytest.mark.parametrize(
    "body",
    [
        "with connection.cursor() as cursor:\n        pass",
        "cursor.execute('SELECT 1')",
        "cursor.executemany('INSERT', rows)",
        "return Tenant.objects.select_for_update().get()",
        "return Tenant.objects.raw('SELECT 1')",
        "return rows.extra(where=['1'])",
        "return rows.annotate(a=RawSQL('1', []))",
        "return rows.annotate(a=Func('b', function='NULLIF'))",
        "return rows.annotate(day=TruncDay('at'))",
        "Row.objects.bulk_create(rows, ignore_conflicts=True)",
        "try:\n        row.save()\n    except IntegrityError:\n        pass",
        "return Whole('a')",
    ],
)
def test_a_function_with_sql_of_our_own_is_found(body: str) -> None:
    assert names(
        f"def held():\n    {body}\n\ndef plain():\n    return rows.filter(a=1)\n", frozenset({"Whole"})
    ) == ["held"]


def test_what_builds_a_prepared_query_is_found() -> None:
    source = (
        "A = Prepared(lambda pk: rows(pk), Field())\ndef built(pk): ...\nB = PreparedUpdate(built, Field())\n"
    )
    assert names(source) == ["<lambda>", "built"]


def test_what_only_sqlite_does_is_not_asked_of_postgresql() -> None:
    assert names("def as_sqlite():\n    return Func('a')\n") == []
    assert names("def kept():\n    cursor.executemany('INSERT OR IGNORE INTO a VALUES (1)', [])\n") == []


def test_every_file_with_a_statement_is_among_the_places() -> None:
    written = re.compile(r"\b(cursor\.execute|select_for_update)\(")
    files = {
        str(path.relative_to(ROOT))
        for top in ("apps", "portal")
        for path in (ROOT / top).rglob("*.py")
        if "migrations" not in path.parts and written.search(path.read_text())
    }
    listed = {place.file for place in places()}
    assert files - listed <= {"apps/prepared.py"}
    assert len(files) > 20


def test_a_place_that_nobody_called_is_missing() -> None:
    calls = Calls()
    assert len(calls.missing()) == len({str(place) for place in places()})
    first, *_ = sorted(map(str, places()))
    calls.first[first] = "tests/some.py::test_it"
    assert first not in calls.missing()


def test_a_place_tells_that_it_is_called_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a function, a method, a lambda, a closure and a coroutine; what is no place tells nothing."""
    monkeypatch.setattr(own_sql, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    source = '''
from contextlib import contextmanager

def plain(): return "plain"

def held():
    """Says so."""
    return "held"

class A:
    @staticmethod
    def method(): return "method"

built = lambda: "lambda"

def outer(of):
    @contextmanager
    def inner():
        yield f"inner of {of}"
    return inner

async def later(): return "later"
'''
    (tmp_path / "telling_example.py").write_text(source)
    example = importlib.import_module("telling_example")
    wanted = {"held": 6, "method": 11, "<lambda>": 14, "inner": 17, "later": 22}
    own_sql.instrument([own_sql.Place("telling_example.py", line, name) for name, line in wanted.items()])
    called: list[str] = []
    monkeypatch.setattr(builtins, own_sql.TOLD, called.append, raising=False)
    with example.outer("this")() as entered:
        answers = [example.plain(), example.held(), example.A.method(), example.built(), entered]
    answers.append(asyncio.run(example.later()))
    assert answers == ["plain", "held", "method", "lambda", "inner of this", "later"]
    assert [each.split()[1] for each in called] == ["inner", "held", "method", "<lambda>", "later"]
