"""What `make test` and the gate leave out belongs to a suite of `make verify`; a change touches suites."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.house.reading import ROOT, sources, tracked
from tests.verify import __main__ as verify
from tests.verify import running
from tests.verify.running import Outcome
from tests.verify.suite import Suite
from tests.verify.suites import SUITES, USES_RIGHTS
from tests.verify.touched import is_below, touched_by, touches
from tests.verify.tree import BOOK

LEFT_OUT = frozenset({"exhaustive", "plane", "node", "browser", "postgres", "both_databases"})
WRITTEN = re.compile(rf"\bmark\.({'|'.join(sorted(LEFT_OUT))})\b")


def marks_in(node: ast.AST) -> frozenset[str]:
    attributes = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return LEFT_OUT & {each.attr for each in attributes if ast.unparse(each.value) == "pytest.mark"}


def marks_of(source: str) -> set[frozenset[str]]:
    """The markers of each test of a module: the module's, and those of its decorators."""
    tree = ast.parse(source)
    of_module = frozenset[str]().union(
        *(
            marks_in(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        )
    )
    tests = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    decorated = {of_module.union(*map(marks_in, node.decorator_list)) for node in tests}
    return {marks for marks in decorated if marks}


def runs(suite: Suite, path: str, marks: frozenset[str]) -> bool:
    """Whether it runs all tests of the module with these markers."""
    chosen = dict(zip(suite.options, suite.options[1:], strict=False))
    expression = Expression.compile(chosen.get("-m", "not nothing"))
    is_chosen = expression.evaluate(lambda name, /, **_: name in marks)
    return "-k" not in chosen and is_below(path, suite.tests) and is_chosen


@cache
def marked() -> tuple[tuple[str, str], ...]:
    """Test modules with a marker, and their sources."""
    modules = (path for path in sources(tests=True) if path.name.startswith("test_"))
    texts = ((str(path.relative_to(ROOT)), path.read_text()) for path in modules)
    return tuple((path, text) for path, text in texts if WRITTEN.search(text))


def test_every_test_that_is_left_out_elsewhere_belongs_to_a_suite() -> None:
    tests = [(path, marks) for path, source in marked() for marks in marks_of(source)]
    assert len(tests) > 100
    lost = [each for each in tests if not any(runs(suite, *each) for suite in SUITES.values())]
    assert lost == []


def test_what_runs_on_both_databases_has_a_suite_on_postgresql() -> None:
    on_postgres = [suite for suite in SUITES.values() if suite.on_postgres]
    lost = [
        path
        for path, source in marked()
        for marks in marks_of(source)
        if marks & {"both_databases", "postgres"}
        and not any(runs(suite, path, marks) for suite in on_postgres)
    ]
    assert lost == []


def test_every_marker_stands_where_this_module_looks_for_it() -> None:
    assert [
        path
        for path, source in marked()
        if not set(WRITTEN.findall(source)) <= frozenset[str]().union(*marks_of(source))
    ] == []


def test_a_test_of_no_suite_is_noticed() -> None:
    source = "pytestmark = MARK.plane\n@MARK.node\ndef test_a(): ...\ndef test_b(): ...\n"
    source = source.replace("MARK", "pytest.mark")
    assert marks_of(source) == {frozenset({"plane", "node"}), frozenset({"plane"})}
    both = frozenset({"plane", "browser"})
    assert not any(runs(suite, "tests/cluster/test_a.py", both) for suite in SUITES.values())
    assert runs(SUITES["looks"], "tests/story/test_a.py", both)
    assert not runs(SUITES["hung"], "tests/drills/test_on_plane.py", frozenset({"plane"}))


def test_every_path_that_a_suite_names_is_there() -> None:
    named = {(name, path) for name, suite in SUITES.items() for path in (*suite.tests, *suite.about)}
    assert sorted((name, path) for name, path in named if not (ROOT / path).exists()) == []


def test_every_source_is_what_a_suite_is_about() -> None:
    paths = [str(path.relative_to(ROOT)) for path in sources(tests=True)]
    paths += [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.relative_to(ROOT).parts[0] in ("k8s", "static", "templates")
    ]
    lost = [path for path in paths if not touched_by([path])]
    assert [path for path in lost if not path.endswith("__init__.py")] == []


def test_rights_are_judged_after_the_suites_on_a_plane_and_only_by_their_runs_at_this_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(SUITES)
    assert all(SUITES[name].on_plane and names.index(name) < names.index("rights") for name in USES_RIGHTS)
    monkeypatch.setattr(running, "KEPT", tmp_path)
    for name, at in zip(USES_RIGHTS, ("before", *["now"] * len(USES_RIGHTS)), strict=False):
        (tmp_path / f"{name}.json").write_text(f'{{"commit": "{at}"}}')
    monkeypatch.setattr(running, "commit", lambda: "now")
    assert running.to_run_before("rights") == [USES_RIGHTS[0]]
    monkeypatch.setattr(running, "commit", lambda: "now with local changes")
    assert running.to_run_before("rights") == list(USES_RIGHTS)
    assert running.to_run_before("matrix") == []


@pytest.mark.parametrize(
    ("path", "suites"),
    [
        ("apps/metering/detector/rules.py", ["metering", "postgres", "detectors"]),
        ("tests/fence/corpus.yaml", ["plane-fence"]),
        (
            "tests/drills/test_last_slice.py",
            ["drills", "postgres", "drills-postgres", "plane-drills", "race"],
        ),
        ("apps/web/streams_of_old/rules.py", ["pages", "matrix", "bodies", "dear-bodies", "postgres"]),
        ("docs/verified.md", []),
        ("README.md", []),
    ],
)
def test_a_change_touches_the_suites_that_are_about_its_path(path: str, suites: list[str]) -> None:
    assert list(touched_by([path])) == suites


@pytest.mark.parametrize(
    "path", ["tests/conftest.py", "tests/factories.py", "pyproject.toml", "requirements/dev.txt"]
)
def test_a_change_of_what_is_shared_touches_every_suite(path: str) -> None:
    assert list(touched_by([path])) == list(SUITES)


def test_each_suite_says_because_of_which_paths_it_runs() -> None:
    changed = ["apps/metering/models.py", "docs/ledger.md", "tests/metering/books.py"]
    assert touched_by(changed)["metering"] == ["apps/metering/models.py", "tests/metering/books.py"]
    assert touches("tests/controlplane/plane.py", "plane-fence")


def test_a_failed_suite_does_not_keep_the_rest_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    def fails_in_matrix(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command[-1])
        return subprocess.CompletedProcess(command, int(command[-1] == "matrix"))

    monkeypatch.setattr(subprocess, "run", fails_in_matrix)
    assert verify.main(["all"]) == 1
    assert started == list(SUITES)
    assert capsys.readouterr().out.endswith("FAILED: matrix\n")


def test_a_run_is_one_line_of_the_book(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><skipped/></testcase>"
        "<testcase name='c'><failure/></testcase></testsuite></testsuites>"
    )
    outcome = Outcome.read(report)
    assert (outcome.tests, outcome.failed, outcome.skipped) == (3, 1, 1)
    summary = {name: name[:2] for name in verify.COLUMNS}
    assert verify.row(summary) == "| su | co | da | te | fa | sk | se | re |\n"
    head = verify.row({name: name for name in verify.COLUMNS})
    assert head in (ROOT / BOOK).read_text()


def test_a_run_that_wrote_no_report_has_not_held(tmp_path: Path) -> None:
    assert not Outcome.read(tmp_path / "report.xml").held
