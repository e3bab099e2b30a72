"""The documents name what is there: files of the repository, and tests that show what they say."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.reading import ROOT, functions, tracked

NAMED = re.compile(r"`([^`\s]+)`")
TESTED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
PLAIN = re.compile(r"[\w./-]+")
GROUP = re.compile(r"/v\d+\w*$")
ISSUE_14 = [f"1.{number}" for number in range(1, 12)]


def documents() -> Iterator[Path]:
    """Decisions are left out: they tell of the files of their day."""
    return (path for path in tracked() if path.suffix == ".md" and path.parent in (ROOT, ROOT / "docs"))


def paths_in(text: str) -> list[str]:
    """What stands as code and begins with a folder of ours: no pattern, and no group of Kubernetes."""
    folders = {path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT}
    found = (word.split("::")[0] for word in NAMED.findall(text))
    ours = (word for word in found if PLAIN.fullmatch(word) and word.partition("/")[0] in folders)
    return [word for word in ours if "/" in word and not GROUP.search(word)]


def is_there(path: str) -> bool:
    """A file or a folder; a module may be named without its suffix."""
    place = ROOT / path
    return place.exists() or place.with_suffix(".py").exists()


def missing_tests(text: str) -> list[str]:
    return [
        f"{path}::{name}"
        for path, name in TESTED.findall(text)
        if not (ROOT / path).is_file() or name not in {each.name for each in functions(ROOT / path)}
    ]


def rows_of_issue_14() -> dict[str, str]:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    rows = (line.split("|") for line in text.splitlines() if line.startswith("| 1."))
    return {cells[1].strip(): cells[-2] for cells in rows}


def test_every_path_that_a_document_names_is_there() -> None:
    named = [(doc.name, path) for doc in documents() for path in paths_in(doc.read_text())]
    assert len(named) > 100
    assert [each for each in named if not is_there(each[1])] == []


def test_every_test_that_a_document_names_is_there() -> None:
    assert [each for doc in documents() for each in missing_tests(doc.read_text())] == []


def test_every_finding_of_issue_14_names_its_tests() -> None:
    rows = rows_of_issue_14()
    assert list(rows) == ISSUE_14
    assert [number for number, shown in rows.items() if not TESTED.search(shown)] == []


def test_a_name_that_is_not_there_is_found() -> None:
    text = "`tests/house/test_documents.py::test_nothing` and `apps/no_room/rules.py`, `apps/*/models.py`"
    assert missing_tests(text) == ["tests/house/test_documents.py::test_nothing"]
    assert [path for path in paths_in(text) if not is_there(path)] == ["apps/no_room/rules.py"]
