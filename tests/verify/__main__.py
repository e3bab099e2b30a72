"""`python -m tests.verify SUITE`, or `make verify SUITE=...`, runs all tests of one suite and reports.

`touched REV` runs the suites whose paths changed since REV, `all` every one; both go on after a failed suite,
and with --list they only say what they would run. `make test` and the gate run a sample. What came of each
run is one line of docs/verified.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.verify import running
from tests.verify.suites import SUITES
from tests.verify.touched import changed_since, touched_by
from tests.verify.tree import BOOK, ROOT

COLUMNS = ("suite", "commit", "date", "tests", "failed", "skipped", "seconds", "result")
SEVERAL = ("touched", "all")


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify", description=__doc__)
    names = (*SEVERAL, *SUITES)
    parser.add_argument("suite", choices=names, metavar="SUITE", help=", ".join(names))
    parser.add_argument("rev", nargs="?", metavar="REV", help="with touched: what changed since this commit")
    parser.add_argument("--list", action="store_true", help="with touched or all: say which, and run none")
    options = parser.parse_args(argv)
    if (options.suite == "touched") != (options.rev is not None):
        parser.error("touched needs a REV, and nothing else takes one")
    if options.suite not in SEVERAL:
        return _one(options.suite)
    names = _touched(options.rev) if options.suite == "touched" else _all()
    return 0 if options.list else _several(names)


def _one(name: str) -> int:
    for other in running.to_run_before(name):
        _one(other)
    summary = running.run(name)
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    with (ROOT / BOOK).open("a") as book:
        book.write(row(summary))
    return 0 if summary["result"] == "held" else 1


def row(summary: Mapping[str, Any]) -> str:
    """The line of the book."""
    return f"| {' | '.join(str(summary[column]) for column in COLUMNS)} |\n"


def _touched(rev: str) -> tuple[str, ...]:
    changed = changed_since(rev)
    reasons = touched_by(changed)
    for name, paths in reasons.items():
        sys.stdout.write(f"{name}: {_few(paths)}\n")
    if rest := set(changed).difference(*reasons.values()):
        sys.stdout.write(f"no suite is about: {_few(sorted(rest))}\n")
    return tuple(reasons)


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def _all() -> tuple[str, ...]:
    for name, suite in SUITES.items():
        sys.stdout.write(f"{name}: {suite.proves}\n")
    return tuple(SUITES)


def _several(names: Iterable[str]) -> int:
    """Each in a process of its own: one that could not even start does not keep the rest from running."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "tests.verify"]
    failed = [name for name in names if subprocess.run([*command, name], cwd=ROOT, check=False).returncode]
    sys.stdout.write(f"FAILED: {', '.join(failed)}\n" if failed else "all held\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
