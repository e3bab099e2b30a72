"""Command line of the sandbox: `python -m sandbox up|fail|clock|state|...`.

Starts a server or talks to a running one.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from sandbox import controllers, fleet
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Manager
from sandbox.api.http.faults import KINDS
from sandbox.api.serving.admin import AdminClient
from sandbox.api.serving.hosting import HostingError, lock, open_cluster, serve
from sandbox.api.storage.clock import check_speed
from sandbox.fleet import cli as fleet_cli

DEFAULT_DIR = Path(".demo/sandbox")


def _speed(text: str) -> float:
    try:
        return check_speed(float(text))
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _up(args: argparse.Namespace) -> int:
    with lock(args.dir):
        return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    cluster = open_cluster(args.dir, seed=args.seed, speed=args.speed)

    def install(into: Cluster, manager: Manager) -> list[Any]:
        controllers.install(into, manager)
        fleet.install(into, manager, args.fleet, into.ids.seed)
        return list(fleet.routes(into))

    # The server hands the signal on once it has stopped: both ways of asking end the same, cleanly.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        serve(args.dir, host=args.host, port=args.port, cluster=cluster, install=install)
    return 0


def _show(answer: Any) -> int:
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    return 0


def _fail(args: argparse.Namespace) -> int:
    client = AdminClient.from_dir(args.dir)
    if args.kind == "clear":
        return _show(client.delete("/sandbox/faults"))
    body = {
        "kind": args.kind,
        "seconds": args.seconds,
        "probability": args.probability,
        "code": args.code,
        "latency": args.latency,
        "verbs": args.verb,
        "path": args.path,
        **({"retryAfter": args.retry_after} if args.retry_after is not None else {}),
    }
    return _show(client.post("/sandbox/faults", body))


def _clock(args: argparse.Namespace) -> int:
    client = AdminClient.from_dir(args.dir)
    return _show(
        client.post("/sandbox/clock", {"speed": args.speed})
        if args.speed is not None
        else client.get("/sandbox/clock")
    )


def _state(args: argparse.Namespace) -> int:
    return _show(AdminClient.from_dir(args.dir).get("/sandbox/state"))


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--dir", type=Path, default=DEFAULT_DIR, help="folder with the sandbox's state and kubeconfigs"
    )
    return parser


def parser() -> argparse.ArgumentParser:
    """Every command, those of the fleet included."""
    root = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    up = _command(commands, "up", "start the API server and the fleet; stops on Ctrl-C and SIGTERM")
    up.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    up.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    up.add_argument("--fleet", default="laptop", help="laptop, lab or a fleet file")
    up.add_argument("--speed", type=_speed, default=1.0, help="simulated seconds per second, 1 to 60")
    up.add_argument("--seed", type=int, default=7, help="the same seed gives the same fleet behaviour")
    up.set_defaults(run=_up)
    fail = _command(commands, "fail", "make the API misbehave for a while")
    fail.add_argument("kind", choices=(*KINDS, "clear"))
    fail.add_argument("--seconds", type=float, default=30.0)
    fail.add_argument("--probability", type=float, default=1.0)
    fail.add_argument("--code", type=int, default=500, help="HTTP code of a status fault")
    fail.add_argument("--retry-after", type=int)
    fail.add_argument("--latency", type=float, default=0.5, help="seconds")
    fail.add_argument("--verb", action="append", default=[], help="only this HTTP method (repeatable)")
    fail.add_argument("--path", default="", help="only paths that match this expression")
    fail.set_defaults(run=_fail)
    clock = _command(commands, "clock", "show or set the speed of simulated time")
    clock.add_argument("--speed", type=_speed)
    clock.set_defaults(run=_clock)
    _command(commands, "state", "what the sandbox holds").set_defaults(run=_state)
    fleet_cli.add_commands(commands)
    return root


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except (HostingError, ValueError, FileNotFoundError, httpx.HTTPError) as problem:
        sys.stderr.write(f"sandbox: {problem}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
