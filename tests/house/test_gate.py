"""The gate's verdict: what is green, what is unsteady, and what is red with its reasons."""

import sys
import threading
from collections import deque
from pathlib import Path

import pytest

from tests import gate
from tests.gate import Gate, Result, Suite, judge
from tests.patience import until

PASSES, FAILS = "def test_b(): pass\n", "def test_a(): assert 1 == 2, 'a reason'\n"
GREEN = "3 passed in 1.00s"
ONE_RED = "FAILED tests/x/test_a.py::test_a - AssertionError: a reason\n1 failed, 2 passed in 1.00s"
IMPORT = "ERROR tests/x/test_a.py - ModuleNotFoundError: No module named 'x'\n"


def result(text: str, status: int, name: str = "units", failed: tuple[str, ...] = ()) -> Result:
    return Result(Suite(name, (), ()), status, text, 1.0, failed)


def test_green_tells_the_counts() -> None:
    verdict = judge([result(GREEN, 0)], {}, ["units"])
    assert (verdict.is_green, verdict.lines) == (True, ["units: 3 passed in 1.00s (1 s)", "unsteady: none"])


def test_what_passes_when_repeated_is_green_and_named_with_its_first_failure() -> None:
    verdict = judge([result(ONE_RED, 1, failed=("a",))], {"units": result(GREEN, 0)}, ["units"])
    assert verdict.is_green
    assert verdict.lines[-1] == "units: FAILED tests/x/test_a.py::test_a - AssertionError: a reason"


def test_more_than_three_unsteady_tests_are_red() -> None:
    verdict = judge([result(ONE_RED, 1, failed=("a", "b", "c", "d"))], {"units": result(GREEN, 0)}, ["units"])
    assert not verdict.is_green
    assert verdict.lines[0] == "FAILED: 4 tests passed only when repeated; 3 may"


def test_what_fails_twice_is_red_with_its_assertion() -> None:
    verdict = judge([result(ONE_RED, 1)], {"units": result(ONE_RED, 1)}, ["units"])
    assert not verdict.is_green
    assert "FAILED tests/x/test_a.py::test_a - AssertionError: a reason" in verdict.lines


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("no tests ran in 0.01s", 0, "It ran no test and ended with status 0."),
        (IMPORT, 2, "No module named 'x'"),
        ("make: *** [Makefile:50: lint] Error 1\n", 2, "Makefile:50: lint"),
        ("E   OSError: [Errno 98] Address already in use\n", 1, "A port was taken by another process."),
        ("OSError: [Errno 28] No space left on device", 1, "The disk was full."),
    ],
)
def test_a_suite_that_ran_nothing_is_red_and_says_why(text: str, status: int, words: str) -> None:
    verdict = judge([result(text, status)], {}, ["units"])
    assert not verdict.is_green
    assert words in "\n".join(verdict.lines)


def test_a_suite_that_never_began_is_red() -> None:
    assert judge([], {}, ["units"]).lines == ["FAILED: units did not run"]


def test_red_fits_into_thirty_lines() -> None:
    text = "\n".join(f"FAILED tests/x.py::test_{number} - assert 0" for number in range(50))
    lines = judge([result(text, 1)], {}, ["units"]).lines
    assert (len(lines), lines[-1]) == (28, "and 25 more, above")


def test_a_gate_that_is_interrupted_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    child = "subprocess.Popen(['sleep', '300'], start_new_session=True)"
    (tmp_path / "sleeps.py").write_text(f"import subprocess, time\n{child}\ntime.sleep(300)\n")
    made = Gate(tmp_path / "home")
    results: list[Result] = []
    suite = Suite("own", (sys.executable, "sleeps.py"), ())
    lane = threading.Thread(target=made.lane, args=(deque([suite]), results, {}, 0))
    lane.start()
    until(lambda: len(list(gate.processes(f"{made.home}/"))) == 2, "both to run")
    made.end()
    lane.join()
    assert list(gate.processes(f"{made.home}/")) == []
    assert not results[0].is_green


def test_only_what_failed_is_repeated_and_what_is_left_running_is_ended_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    sleeper = (
        "def test_s():\n import subprocess\n subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
    )
    (tmp_path / "test_it.py").write_text(PASSES + FAILS + sleeper)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:django", "test_it.py")
    made = Gate(tmp_path / "home")
    first = made.run(Suite("own", command, (*command, *gate.AGAIN)), {})
    assert (first.status, first.counts.partition(" in ")[0]) == (1, "1 failed, 2 passed")
    assert (first.failed, [line.partition(" (")[0] for line in first.leftovers]) == (
        ("test_it.py::test_a",),
        ["sleep 300"],
    )
    (tmp_path / "test_it.py").write_text(PASSES + FAILS.replace("2", "1"))
    second = made.run(first.suite, {}, is_repeat=True)
    assert (second.is_green, second.counts.partition(" in ")[0]) == (True, "1 passed, 1 deselected")
