"""Whether the sample of `make test` still sees: `python -m tests.removals` takes out one thing at a time.

Each removal of `removals.yaml` is tried in a throwaway worktree of the last commit: what `make test` runs
of its tests has to go red within a minute. The table is for docs/figures.md.
"""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests import yamls

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).with_suffix(".yaml")
PATIENCE = 60
"""Seconds that the tests of a removal may take; what is red only later is not seen."""
MOST_UNSEEN = 2
NO_PROOF = re.compile(r'(^|with ")((Syntax|Name|Import|ModuleNotFound|UnboundLocal)Error|collection failure)')
"""How a failure begins that says that the removal is no code, and nothing of the rule."""
REPORT = "removals.xml"
LEGACY = ("-o", "junit_family=xunit1")
"""The form of the report that names the file of a test."""


@dataclass(frozen=True)
class Removal:
    """One thing that is taken out; `removals.yaml` explains the fields."""

    name: str
    kind: str
    gone: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def without(self, text: str) -> str:
        """The file without it; raises ValueError unless it stands there exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: it stands {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Verdict:
    """What became of the tests: "red", "NOT SEEN" or "broken", and by which test or why."""

    word: str
    why: str
    seconds: float = 0

    @property
    def is_seen(self) -> bool:
        """Whether a test failed because of the removal."""
        return self.word == "red"


def load() -> list[Removal]:
    """All removals, in the order of the file."""
    return [Removal(**{**row, "tests": tuple(row["tests"])}) for row in yamls.document(SOURCE.read_text())]


def main(argv: list[str] | None = None) -> int:
    """Take out one after the other; 0 when enough of them were seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.removals", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="name the removals and run nothing")
    parser.add_argument("--check", action="store_true", help="only whether the product starts without each")
    asked = parser.parse_args(argv)
    removals = [removal for removal in load() if not asked.names or removal.name in asked.names]
    if unknown := set(asked.names) - {removal.name for removal in removals}:
        parser.error(f"there is no removal {', '.join(sorted(unknown))}")
    if asked.list:
        for removal in removals:
            say(f"{removal.kind:10}  {removal.name:34}  {removal.file}")
        return 0
    # What ends it tidies up, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with worktree() as tree:
        return check(tree, removals) if asked.check else judge(tree, removals)


def say(line: str) -> None:
    """A line of output, at once: the whole takes half an hour."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def worktree() -> Iterator[Path]:
    """A worktree of the last commit, gone at the end: the checkout is never touched."""
    with tempfile.TemporaryDirectory(prefix="allotment-removals-") as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> None:
    """Git in the checkout."""
    subprocess.run(["git", *words], cwd=ROOT, check=True)


@contextmanager
def taken_out(tree: Path, removal: Removal) -> Iterator[str]:
    """The tree without it, and the text of its file then; afterwards as before."""
    path = tree / removal.file
    whole = path.read_text()
    text = removal.without(whole)
    path.write_text(text)
    try:
        yield text
    finally:
        path.write_text(whole)


def judge(tree: Path, removals: Sequence[Removal]) -> int:
    """The table of all removals; 0 when at most `MOST_UNSEEN` of them were not seen."""
    command = pytest_of(tree)
    # Compiled beforehand, as in a checkout that is in use: it would take the first removal's minute.
    paths = sorted({path for removal in removals for path in removal.tests})
    if run(tree, [*command, "--collect-only", *paths], patience=None) != 0:
        say("The tests cannot be collected.")
        return 2
    say("| Removal | Taken out | Outcome | Seconds |\n| --- | --- | --- | --- |")
    seen = 0
    for removal in removals:
        verdict = tried(tree, command, removal)
        seen += verdict.is_seen
        outcome = f"{verdict.word}: {verdict.why}".replace("|", "\\|")
        say(f"| {removal.name} | {removal.gone} | {outcome} | {verdict.seconds:.0f} |")
    say(f"\n{seen} of {len(removals)} seen")
    return 0 if len(removals) - seen <= MOST_UNSEEN else 1


def pytest_of(tree: Path) -> list[str]:
    """Pytest with the markers that `make test` gives it, as Make itself tells."""
    lines = subprocess.run(
        ["make", "--dry-run", "unit"], cwd=tree, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    words = shlex.split(next(line for line in lines if "/pytest " in line))
    return [sys.executable, "-m", "pytest", "-q", "-m", words[words.index("-m") + 1]]


def tried(tree: Path, command: Sequence[str], removal: Removal) -> Verdict:
    """What the tests say without it. RULE: red counts only if the same test is green with it."""
    report = tree / REPORT
    report.unlink(missing_ok=True)
    once = ["-x", "--cache-clear", "-n", "2", "--dist", "worksteal", f"--junitxml={report}", *LEGACY]
    began = time.monotonic()
    with taken_out(tree, removal):
        code = run(tree, [*command, *once, *removal.tests], patience=PATIENCE)
    seconds = time.monotonic() - began
    word, why = read(code, report)
    again = ["--last-failed", "--last-failed-no-failures", "none", *removal.tests]
    if word == "red" and run(tree, [*command, *again], patience=PATIENCE) != 0:
        word, why = "broken", f"{why} is not green with it either"
    return Verdict(word, why, seconds)


def read(code: int | None, report: Path) -> tuple[str, str]:
    """The outcome by pytest's exit code and its report: a word, and by which test or why."""
    if code is None:
        return "NOT SEEN", f"nothing red within {PATIENCE} s"
    if not report.exists():
        return "broken", f"pytest ended with {code}"
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - written by our own pytest
    failures = [
        (f"`{case.get('file') or case.get('classname')}::{case.get('name')}`", str(problem.get("message")))
        for case in cases
        for problem in case
        if problem.tag in ("failure", "error")
    ]
    for test, message in failures:
        if NO_PROOF.search(message):
            return "broken", f"{test}: {message.splitlines()[0]}"
    if failures:
        return "red", failures[0][0]
    return ("NOT SEEN", f"{len(cases)} tests are green") if code == 0 else ("broken", "no test ran")


def run(tree: Path, command: Sequence[str], *, patience: float | None) -> int | None:
    """The exit code of a command in the tree; None where it took too long. Nothing of it is left running."""
    # Either would change what `make test` runs, or how long it takes.
    env = {k: v for k, v in os.environ.items() if k not in ("EXHAUSTIVE", "PYTHONDONTWRITEBYTECODE")}
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=tree, env=env, stdout=nowhere, stderr=nowhere, start_new_session=True
    ) as process:
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def check(tree: Path, removals: Sequence[Removal]) -> int:
    """Whether the product compiles, names nothing unknown and starts without each; 0 when all do."""
    broken = 0
    for removal in removals:
        with taken_out(tree, removal) as text:
            compile(text, removal.file, "exec")
            names = ["ruff", "check", "--isolated", "--select", "F821", removal.file]
            codes = [
                run(tree, [sys.executable, *words], patience=None)
                for words in (["-m", *names], ["manage.py", "check"])
            ]
        broken += any(codes)
        say(f"{'broken' if any(codes) else 'starts':6}  {removal.name}")
    say(f"\n{len(removals) - broken} of {len(removals)} start")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
