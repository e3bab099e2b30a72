"""The budgets of the house: small functions, small files, few parameters, a docstring where a rule lives."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.reading import ROOT, Function, Measured, functions, sources, tracked

LONGEST_FUNCTION, LONGEST_FILE, MOST_PARAMETERS = 40, 400, 6
LONGEST_VIEW, LONGEST_TASK = 20, 5
RULE_MODULES = re.compile(r"/(services|rules|manifests|status|explain)(/.*)?\.py$")
# A frozen value whose fields a function sets one by one is clearer as keyword arguments: verbs of services.
KEYWORD_VERBS = re.compile(r"apps/\w+/(\w+/)?services(/\w+)?\.py$")


def name(path: Path, node: Measured | Function) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def test_no_function_is_longer_than_forty_lines() -> None:
    long = [
        f"{name(p, f)} ({f.length})"
        for p in sources(tests=True)
        for f in functions(p)
        if f.length > LONGEST_FUNCTION
    ]
    assert long == []


def test_nine_of_ten_functions_are_at_most_twenty_five_lines() -> None:
    sizes = sorted(f.length for p in sources() for f in functions(p))
    assert sizes[int(len(sizes) * 0.9)] <= 25


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    long = [
        f"{p.relative_to(ROOT)} ({lines})"
        for p in sources(tests=True)
        if (lines := p.read_text().count("\n")) > LONGEST_FILE
    ]
    assert long == []


def test_no_function_takes_more_than_six_parameters() -> None:
    many = []
    for path in sources():
        limit = MOST_PARAMETERS + 3 if KEYWORD_VERBS.search(str(path)) else MOST_PARAMETERS
        many += [
            name(path, f)
            for f in functions(path)
            if len([n for n in f.parameters if n not in ("self", "cls")]) > limit
        ]
    assert many == []


def test_views_and_tasks_stay_thin() -> None:
    thick = []
    for path in sources():
        is_view = path.name.endswith("_views.py") and "portal" in path.parts
        limit = LONGEST_VIEW if is_view else LONGEST_TASK if path.name == "tasks.py" else None
        if limit is None:
            continue
        thick += [f"{name(path, f)} ({f.thickness})" for f in functions(path) if f.thickness > limit]
    assert thick == []


def test_every_module_says_what_it_does() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in sources()
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_every_public_function_that_holds_a_rule_states_it() -> None:
    silent = [
        name(p, f)
        for p in sources()
        if RULE_MODULES.search(str(p))
        for f in ast.parse(p.read_text()).body
        if isinstance(f, Function) and not f.name.startswith("_") and not ast.get_docstring(f)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        (
            "a download address in a lock file",
            r"--(extra-)?index-url|https?://\S+\.(whl|tar\.gz)|\"resolved\": \"http",
        ),
        ("unfinished work", r"\b(TODO|FIXME|HACK)\b|\bXXX\b(?!-)"),
        ("a home folder of some machine", r"(?<![\w.])/(root/[.\w]|home/\w+/|Users/\w+/)"),
    ],
)
def test_nothing_tracked_holds(what: str, pattern: str) -> None:
    found = re.compile(pattern)
    here = Path(__file__).resolve()
    skipped = {".png", ".woff2", ".ico", ".gz", ".svg", ".sum", ".json"}
    places = [
        f"{p.relative_to(ROOT)}: {what}"
        for p in tracked()
        if p.suffix not in skipped and p != here and found.search(p.read_text("utf-8", "replace"))
    ]
    assert places == []
