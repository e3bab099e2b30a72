"""What an installation's processes said, in the report of a test that failed while they ran.

A plugin. Their logs lie in folders that are gone after the run, and what fails once in a while cannot be
asked again. Who starts processes says by `heard` where they write; nothing is read while all passes.

RULE: logs alone are printed. They hold no secrets (portal/operate/logs.py); environments, settings and the
audit log do.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

LAST, OF_PLANE, WIDEST = 200, 40, 600
"""Lines of each process of the product, and of each part of a control plane, which says more; characters."""
SUPERVISED = re.compile(r"\d\d:\d\d:\d\d (\S+) +\| ")
"""A supervisor's time and name of the part in front of a line."""
BEGINS = re.compile(r'\d{4}[-/]\d\d|\[\d{4}-|[IWEF]\d{4} |\{"|[A-Z]+: |Traceback ')
"""A record; other lines belong to the one before them."""
SERIOUS = re.compile(r'[WEF]\d{4} |Traceback |.*(\b(WARNING|ERROR|CRITICAL)\b|"level":"(?!info|debug))')
Logs = Callable[[], Mapping[str, str]]
"""What each process has said until now."""

_running: list[tuple[Logs, int]] = []
_ended: list[tuple[str, str]] = []


@contextmanager
def heard(logs: Logs, last: int = LAST) -> Iterator[None]:
    """Their last words are in the report of each test that fails meanwhile, or at whose end they end."""
    _running.append((logs, last))
    try:
        yield
    finally:
        _running.remove((logs, last))
        _ended.extend(_sections(logs, last))


def of_folder(folder: Path) -> dict[str, str]:
    """Each log of a folder, but for the API server's audit log, which is long and has objects in it."""
    return {
        path.stem: path.read_text(errors="replace")
        for path in sorted(folder.glob("*.log"))
        if path.stem != "audit"
    }


def of_supervisor(output: Sequence[str]) -> dict[str, str]:
    """What a supervisor printed, by the part that said it."""
    parts: defaultdict[str, str] = defaultdict(str)
    for line in output:
        named = SUPERVISED.match(line)
        parts[named[1] if named else "supervisor"] += line
    return parts


def gist(text: str, last: int = LAST) -> list[str]:
    """The last lines; of those before, as many that are serious, with what belongs to them."""
    lines, serious, is_serious = text.splitlines(), list[str](), False
    for line in lines[:-last]:
        bare = SUPERVISED.sub("", line)
        if BEGINS.match(bare):
            is_serious = bool(SERIOUS.match(bare))
        serious += [line] if is_serious else []
    return [line[:WIDEST] for line in (*serious[-last:], *lines[-last:])]


def _sections(logs: Logs, last: int) -> Iterator[tuple[str, str]]:
    """Each line is set in, so that nobody takes it for a line of pytest's."""
    for name, text in logs().items():
        if text:
            yield f"said by {name}", "".join(f"  {line}\n" for line in gist(text, last))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _ended.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += [*_ended, *(section for each in _running for section in _sections(*each))]
    return report
