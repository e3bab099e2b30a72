"""Command line of the contract: `record` on the real plane, `compare` anywhere, `report` into the documents.

    python -m tests.contract record --kubeconfig /tmp/plane/admin.kubeconfig
    python -m tests.contract compare --kubeconfig /tmp/box/admin.kubeconfig apply watch
    python -m tests.contract report --kubeconfig /tmp/box/admin.kubeconfig

The kubeconfig must be an administrator's: checks make namespaces, roles and queues of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.contract import compare, record, report, runner
from tests.contract.api import Cluster

THREADS = 12


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 0 where nothing was wrong."""
    options = _parser().parse_args(arguments)
    begin = time.monotonic()
    chosen = runner.find(options.groups)
    with runner.cluster(options.kubeconfig) as opened:
        outcomes = runner.run(opened, chosen, THREADS)
        seconds = time.monotonic() - begin
        wrong = _COMMANDS[options.command](opened, outcomes)
        for name, told in wrong.items():
            _print(f"\n## {name}\n{told}")
        _print(f"{len(outcomes)} checks in {seconds:.0f} s, {len(wrong)} complaints")
    return 1 if wrong else 0


def _record(opened: Cluster, outcomes: dict[str, runner.Outcome]) -> dict[str, str]:
    failed = {name: outcome.failure for name, outcome in outcomes.items() if outcome.failure}
    if not failed:
        record.save(opened, outcomes)
    return failed


def _compare(_: Cluster, outcomes: dict[str, runner.Outcome]) -> dict[str, str]:
    return compare.complaints(outcomes, record.load(), compare.differences())


def _report(opened: Cluster, outcomes: dict[str, runner.Outcome]) -> dict[str, str]:
    wrong = _compare(opened, outcomes)
    if not wrong:
        report.PLACE.write_text(report.render(record.load(), compare.differences(), record.served(opened)))
    return wrong


_COMMANDS = {"record": _record, "compare": _compare, "report": _report}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in _COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("--kubeconfig", type=Path, required=True)
        command.set_defaults(groups=[])
        if name == "compare":
            command.add_argument("groups", nargs="*", help=", ".join(runner.groups()))
    return parser


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
