"""Benchmarks against the limit: `python -m tests.bench SUITE`, or `make bench SUITE=g1|g2|g4|g5|all`.

Pairs of the product and a bare reference in one run, in alternating order; one JSON line per round and one
with the ratio, its 90 % interval and the goal. What is compared is checked in the run: a wrong result has no
speed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from tests.bench import browser, counting, provisioning
from tests.bench.rig import ROOT, Rig, rig

Line = dict[str, object]

SUITES: dict[str, Callable[[Rig, int], Iterator[Line]]] = {
    "g1": lambda found, rounds: provisioning.throughput(found, rounds=rounds, size=32),
    "g2": lambda found, rounds: provisioning.click(found, rounds=rounds),
    "g4": lambda found, _: counting.calls(found, requests=20),
    "g5": lambda found, rounds: browser.changes(found, rounds=rounds),
}


def main(argv: list[str] | None = None) -> int:
    """Run suites on one installation; every line goes to standard output."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("suite", nargs="+", choices=[*SUITES, "all"], metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args(argv)
    chosen = list(SUITES) if "all" in options.suite else options.suite
    with rig() as found:
        for name in chosen:
            for line in SUITES[name](found, options.rounds):
                stamp = (
                    {} if "round" in line else {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
                )
                sys.stdout.write(json.dumps({**line, **stamp}) + "\n")
                sys.stdout.flush()
    return 0


def _measured_at() -> Line:
    return {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "load": os.getloadavg()[1]}


def commit() -> str:
    """The commit that is measured, and whether the checkout differs from it."""

    def git(*words: str) -> str:
        told = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
        return told.stdout.strip()

    changed = " with local changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short", "HEAD") + changed


if __name__ == "__main__":
    sys.exit(main())
