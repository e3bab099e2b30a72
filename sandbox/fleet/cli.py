"""Fleet commands: print or check a fleet file, change behaviour, inject faults, write a history."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.fleet import history
from sandbox.fleet.behaviours import USUAL, Behaviour
from sandbox.fleet.document import FleetError
from sandbox.fleet.faults import FaultKind
from sandbox.fleet.spec import Fleet, Pool, load_fleet, ready_fleets

STATE = Path(".demo/sandbox")


def add_commands(commands: Any) -> None:
    """Add `fleet`, `behave`, `break` and `history` to the sandbox's command line."""
    fleet = _command(
        commands, "fleet", "print a fleet, or check a fleet file: errors name the line and the rule"
    )
    fleet.add_argument("fleet", nargs="?", default="laptop", help=f"{', '.join(ready_fleets())} or a file")
    fleet.set_defaults(run=_fleet)
    behave = _command(commands, "behave", "make a running pod, or the next pods of a namespace, behave so")
    behave.add_argument("target", help="NAMESPACE/POD, or NAMESPACE for every pod made there from now on")
    behave.add_argument("behaviour", choices=[*(b.value for b in Behaviour), USUAL])
    behave.set_defaults(run=_behave)
    broken = _command(commands, "break", "inject a fault of the fleet")
    broken.add_argument("kind", choices=[k.value for k in FaultKind])
    broken.add_argument("node")
    broken.add_argument("--gpu", type=int, default=0, help="index of the GPU on the node (xid, xid-taint)")
    broken.add_argument(
        "--seconds", type=float, default=120.0, help="notice of a spot node, or length of a gap"
    )
    broken.add_argument("--code", type=int, default=79, help="the XID")
    broken.set_defaults(run=_break)
    _history(commands)


def _history(commands: Any) -> None:
    past = _command(
        commands, "history", "write past events and samples as files; the same seed, the same days"
    )
    past.add_argument("--days", type=int, default=7)
    past.add_argument("--fleet", default="laptop")
    past.add_argument("--seed", type=int, default=7)
    past.add_argument("--step", type=int, default=30, help="seconds between samples")
    past.add_argument(
        "--tenants",
        type=_teams,
        default=dict.fromkeys(history.TENANTS, ()),
        help="namespaces that work, with commas; whose people are known: vision:rosa+kim,speech",
    )
    past.add_argument(
        "--until", type=_moment, default=None, help="end of the history, RFC 3339 (default: now)"
    )
    past.add_argument("--out", type=Path, required=True, help="folder for the files")
    past.set_defaults(run=_write_history)


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--dir", type=Path, default=STATE, help="folder with the sandbox's state and kubeconfigs"
    )
    return parser


def _teams(text: str) -> dict[str, tuple[str, ...]]:
    """Tenants with their people, as `vision:rosa+kim,speech`."""
    parts = [part.partition(":") for part in text.split(",")]
    return {tenant: tuple(filter(None, people.split("+"))) for tenant, _, people in parts}


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"not a time: {text}") from problem
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError("the time needs a zone, such as Z")
    return moment


def _fleet(args: argparse.Namespace) -> int:
    try:
        fleet = load_fleet(args.fleet)
    except FleetError as problem:
        raise FleetError(problem.line, f"{problem.rule} (in {args.fleet})") from problem
    sys.stdout.write(f"{describe(fleet)}\n")
    return 0


def describe(fleet: Fleet) -> str:
    """One line per pool, and the totals."""
    lines = [f"fleet {fleet.name}: {fleet.gpus} GPUs on {sum(p.nodes for p in fleet.pools)} nodes"]
    lines += [_pool_line(pool) for pool in fleet.pools]
    return "\n".join(lines)


def _pool_line(pool: Pool) -> str:
    if pool.model is None:
        return f"  {pool.name:<12} {f'{pool.nodes} x no GPU':<18} {'':<26} {pool.capacity.value}"
    detail = pool.sharing.mode.value
    slices = sum(len(layout) for layout in pool.sharing.layouts) * pool.nodes
    if slices:
        detail += f", {slices} slices"
    if pool.sharing.replicas > 1:
        detail += f", {pool.sharing.replicas} per GPU"
    size = f"{pool.nodes} x {pool.gpus_per_node} {pool.model.key}"
    return f"  {pool.name:<12} {size:<18} {detail:<26} {pool.capacity.value}"


def _client(args: argparse.Namespace) -> Any:
    from sandbox.api.serving.admin import AdminClient

    return AdminClient.from_dir(args.dir)


def _show(answer: Any) -> int:
    sys.stdout.write(f"{json.dumps(answer, indent=2)}\n")
    return 0


def _behave(args: argparse.Namespace) -> int:
    namespace, _, name = args.target.partition("/")
    return _show(
        _client(args).post(
            "/sandbox/fleet/behave", {"namespace": namespace, "name": name, "behaviour": args.behaviour}
        )
    )


def _break(args: argparse.Namespace) -> int:
    body = {"kind": args.kind, "node": args.node, "gpu": args.gpu, "seconds": args.seconds, "code": args.code}
    return _show(_client(args).post("/sandbox/fleet/faults", body))


def _write_history(args: argparse.Namespace) -> int:
    until = args.until or datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    teams: dict[str, tuple[str, ...]] = args.tenants
    plan = history.Plan(args.fleet, args.seed, args.days, args.step, tuple(teams), until, teams)
    return _show(history.write(plan, args.out))
