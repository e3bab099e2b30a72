"""Benchmarks against the limit: `python -m bench SUITE...`, or `make bench SUITE=...`; `all`: each.

Pairs of the product and a bare reference in one run, in alternating order; one JSON line per round and one
with the ratio, its 90 % interval and the goal. What is compared is checked in the run: a wrong result has no
speed. g3 stands beside a peer, JupyterHub. g1 to g5 need a control plane, door and idle nothing; the others
(g7 is with g8) a PostgreSQL and a Redis alone.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    alone,
    api,
    beside,
    browser,
    counting,
    door,
    idle,
    ingest,
    ledger,
    pages,
    past,
    provisioning,
    recovery,
    usage,
    week,
)
from bench.rig import ROOT, Rig, rig

Line = dict[str, object]

Options = argparse.Namespace
SUITES: dict[str, Callable[[Rig, Options], Iterator[Line]]] = {
    "g1": lambda found, asked: provisioning.throughput(found, rounds=asked.rounds, size=asked.requests),
    "g2": lambda found, asked: provisioning.click(found, rounds=asked.rounds),
    "g4": lambda found, _: counting.calls(found, requests=20),
    "g5": lambda found, asked: browser.changes(found, rounds=asked.rounds),
}
WEEKLY: dict[str, Callable[[week.Week, int], Iterator[Line]]] = {"g9": usage.pages, "g10": usage.costs}
ALONE = ["api", "pages", "g7", *WEEKLY, "g11", "recovery"]
NAMES = [*SUITES, "g3", *ALONE, "door", "idle"]


def main(argv: list[str] | None = None) -> int:
    """Run suites, those of a kind on one installation; every line goes to standard output."""
    options = _options(argv)
    chosen = NAMES if "all" in options.suite else options.suite
    if on_rig := [name for name in chosen if name in SUITES]:
        with rig() as found:
            _tell(line for name in on_rig for line in SUITES[name](found, options))
    if "g3" in chosen:
        with beside.prepared(options.requests) as wide:
            _tell(beside.notebooks(wide, rounds=options.rounds, size=options.requests))
    if options.home:
        with alone.demo(options.home):
            _tell(pages.of_demo(options.rounds))
    elif by_itself := [name for name in chosen if name in ALONE]:
        with alone.database() as folder:
            _tell(_alone(by_itself, options, folder))
    if "door" in chosen:
        _tell(door.sockets(options.rounds))
        _tell(past.requests(options.rounds))
    if "idle" in chosen:
        _tell(idle.rest(options.demo, seconds=options.seconds, workloads=options.workloads))
    return 0


def _options(argv: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suite", nargs="+", choices=[*NAMES, "all"], metavar="SUITE", help=", ".join(NAMES))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=32, help="of a round of g1 and g3")
    parser.add_argument("--samples", type=int, default=20_000_000, help="raw samples behind g9 and g10")
    parser.add_argument("--gpus", type=int, default=2000, help="of g7")
    parser.add_argument("--demo", type=int, help="supervisor of a running demo, for idle; else its own")
    parser.add_argument("--seconds", type=float, default=60, help="of rest, for idle")
    parser.add_argument("--workloads", type=int, default=1000, help="that come and go, for idle; 0: none")
    parser.add_argument("--home", type=Path, help="of a demo with its week, for pages")
    return parser.parse_args(argv)


def _alone(chosen: list[str], options: Options, folder: Path) -> Iterator[Line]:
    if "api" in chosen:
        yield from api.speed(options.rounds)
    if "pages" in chosen:
        made = week.make(options.samples, per_tenant=pages.GPUS, works=pages.WORKS)
        yield from pages.of_week(made, options.rounds)
    if "g7" in chosen:
        yield from ingest.samples(options.rounds, gpus=options.gpus)
    if "g11" in chosen:
        yield from ledger.equal(gpus=9, hours=24)
    if weekly := [name for name in chosen if name in WEEKLY]:
        made = week.make(options.samples)
        for name in weekly:
            yield from WEEKLY[name](made, options.rounds)
    if "recovery" in chosen:
        yield from recovery.times(folder)


def _tell(lines: Iterable[Line]) -> None:
    for line in lines:
        stamp: Line = {"load": round(os.getloadavg()[0], 1)}
        if "round" not in line:
            stamp |= {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
            stamp |= {"python": platform.python_version()}
        sys.stdout.write(json.dumps({**line, **stamp}) + "\n")
        sys.stdout.flush()


def commit() -> str:
    """The commit that is measured, and whether the checkout differs from it."""

    def git(*words: str) -> str:
        told = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
        return told.stdout.strip()

    changed = " with local changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short", "HEAD") + changed


if __name__ == "__main__":
    sys.exit(main())
