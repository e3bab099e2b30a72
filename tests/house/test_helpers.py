"""Tests stand in `test_*` modules, what they share in plain ones: nobody reads a suite to use its helper."""

import ast

from tests.house.reading import ROOT, sources


def shared_by_suites(source: str) -> list[str]:
    """The test modules that a source imports from."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        found += [name for name in names if any(part.startswith("test_") for part in name.split(".")[:-1])]
    return found


def test_no_module_imports_from_a_test_module() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sources(tests=True)
        # To look for the words takes a hundredth of the time that parsing takes.
        if ".test_" in (source := path.read_text()) and (names := shared_by_suites(source))
    }
    assert found == {}


def test_an_import_from_a_test_module_is_found_wherever_it_stands() -> None:
    late = "def f():\n    from tests.web.test_links import asked\n"
    assert shared_by_suites(late) == ["tests.web.test_links.asked"]
    assert shared_by_suites("import tests.web.test_links.sub as it") == ["tests.web.test_links.sub"]
    assert shared_by_suites("from tests.web import broker") == []
