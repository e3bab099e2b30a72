"""A failed test's report has what the processes of its installation said; one that passes has nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.reading import ROOT
from tests.logs import LAST, WIDEST, gist, of_folder, of_supervisor

PLAIN = [f"2026-11-29 23:55:43,310 INFO apps.x line {number}" for number in range(2 * LAST)]
MODULE = """
import pathlib, pytest
from tests.logs import heard, of_folder

folder = pathlib.Path(__file__).parent

@pytest.fixture(scope="session")
def whole():
    with heard(lambda: of_folder(folder)):
        yield

def test_one_that_runs_on(whole): assert OUTCOME

def test_one_of_its_own():
    with heard(lambda: {"door": "ERROR a word of the door"}):
        assert OUTCOME
"""


def run(folder: Path, outcome: str) -> str:
    (folder / "worker-1.log").write_text("a word of the worker\n")
    (folder / "test_it.py").write_text(MODULE.replace("OUTCOME", outcome))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:django", "-p", "tests.logs", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stdout


def test_what_failed_has_the_words_of_what_ran_beside_it(tmp_path: Path) -> None:
    said = run(tmp_path, "False")
    assert "2 failed" in said
    assert said.count("\n  a word of the worker\n") == 2
    assert said.count("- said by door -") == said.count("\n  ERROR a word of the door\n") == 1


def test_where_all_passes_nothing_is_printed(tmp_path: Path) -> None:
    said = run(tmp_path, "True")
    assert "2 passed" in said
    assert "a word" not in said


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-29 23:55:43,310 ERROR apps.x it broke",
        "23:55:43 worker  | 2026-11-29 23:55:43,310 WARNING apps.x it broke",
        "[2026-11-29 23:55:43,310: WARNING/MainProcess] consumer: Connection to broker lost",
        '{"time":"2026-11-29T23:55:43Z","level":"warning","message":"it broke"}',
        '{"level":"error","ts":"2026-11-29T23:55:43Z","msg":"it broke"}',
        "E1129 23:55:43.310000   15 reflector.go:1] it broke",
        "ERROR:    it broke",
        "Traceback (most recent call last):",
    ],
)
def test_what_is_serious_stays_with_what_belongs_to_it_however_long_ago(line: str) -> None:
    text = "\n".join([PLAIN[0], line, "  and this belongs to it", *PLAIN])
    assert gist(text) == [line, "  and this belongs to it", *PLAIN[-LAST:]]


def test_a_storm_of_errors_is_cut() -> None:
    line = "2026-11-29 23:55:43,310 ERROR apps.x it broke " + 1000 * "x"
    cut = gist("\n".join([line] * 10 * LAST))
    assert (len(cut), {len(line) for line in cut}) == (2 * LAST, {WIDEST})


def test_what_a_supervisor_printed_is_parted() -> None:
    lines = [
        "23:55:39 web     | one\n",
        "Allotment is ready\n",
        "23:55:43 worker  | two\n",
        "23:55:44 web     | 3\n",
    ]
    assert of_supervisor(lines) == {
        "web": lines[0] + lines[3],
        "supervisor": lines[1],
        "worker": lines[2],
    }


def test_the_audit_log_is_left_out(tmp_path: Path) -> None:
    for name in ("kueue", "audit"):
        (tmp_path / f"{name}.log").write_text("a word\n")
    assert of_folder(tmp_path) == {"kueue": "a word\n"}
