"""Command line of the test control plane: build, up, down, status, rights.

`up` prints the product's kubeconfig as its last line; everything else that it says goes to standard error.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.controlplane import binaries, fleet, rights
from tests.controlplane.network import PortsTakenError
from tests.controlplane.pki import PkiError
from tests.controlplane.plane import CHART, ControlPlane, PlaneError

logger = logging.getLogger("tests.controlplane")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 0 if it did what was asked."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options = _parser().parse_args(arguments)
    try:
        return _COMMANDS[options.command](options)
    except (PlaneError, PkiError, PortsTakenError, binaries.BuildError) as error:
        logger.error("%s", error)  # noqa: TRY400 the words are for a person, the trace is not
        return 1


def _build(_: argparse.Namespace) -> int:
    # Schemas and Helm too: what a test downloads or builds would run into the test's time limit.
    binaries.ensure(binaries.FLUX_SCHEMAS)
    binaries.ensure(binaries.GATEWAY_SCHEMAS)
    binaries.ensure(binaries.HELM)
    binaries.ensure(binaries.COMPOSE)
    _print(binaries.ensure().folder)
    return 0


def _up(options: argparse.Namespace) -> int:
    binaries.ensure()
    started = time.monotonic()
    plane = ControlPlane(
        options.dir,
        base_port=options.base_port,
        fleet_name=options.fleet,
        audit=options.audit,
        service_account_admission=options.service_account_admission,
    )
    plane.up()
    logger.info("control plane up in %.1f s; kubectl: %s", time.monotonic() - started, plane.kubectl_path)
    _print(plane.kubeconfig)
    return 0


def _down(options: argparse.Namespace) -> int:
    ControlPlane(options.dir).down()
    return 0


def _status(options: argparse.Namespace) -> int:
    plane = ControlPlane(options.dir)
    conditions = plane.status()
    for name, condition in conditions.items():
        _print(f"{name}: {condition}")
        if condition == "dead":
            _print(plane.log_tail(name))
    if not conditions:
        _print("no plane runs here")
    return 0 if conditions and set(conditions.values()) == {"running"} else 1


def _rights(options: argparse.Namespace) -> int:
    """1 while the product has a right that no suite used, or misses one that it asked for."""
    on_trust = rights.UNSHOWN if options.all else rights.ON_TRUST
    found = rights.judge(
        rights.use(rights.logs(options.logs)), rights.chart_documents(CHART / "rbac.yaml"), on_trust
    )
    _print(found.table)
    for name, figure in found.figures.items():
        _print(f"{name}: {figure}")
    return 0 if found.holds else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs into the cache and print the folder")
    judge = commands.add_parser("rights", help="compare the chart's ClusterRole with audit logs")
    judge.add_argument("logs", type=Path, nargs="+", help="audit logs, or folders of them")
    judge.add_argument("--all", action="store_true", help="of every suite: nothing is taken on trust")
    for name in ("up", "down", "status"):
        command = commands.add_parser(name)
        command.add_argument("--dir", type=Path, required=True, help="folder of the plane")
        if name == "up":
            command.add_argument(
                "--base-port", type=int, default=0, help="first of ten ports; 0: a free block"
            )
            command.add_argument("--fleet", choices=sorted(fleet.FLEETS), default="story")
            command.add_argument("--audit", action="store_true", help="log every API call")
            command.add_argument("--service-account-admission", action="store_true")
    return parser


def _print(line: object) -> None:
    sys.stdout.write(f"{line}\n")


_COMMANDS = {"build": _build, "up": _up, "down": _down, "status": _status, "rights": _rights}

if __name__ == "__main__":
    sys.exit(main())
