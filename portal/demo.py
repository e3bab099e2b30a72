"""`make demo`: every part of the product on one machine under one supervisor.

Starts the same web, worker, beat and watcher as production, a real Redis, and, unless a kubeconfig is given,
the sandbox cluster. Keeps its data in ALLOTMENT_HOME. It decides nothing of the product: seeding is
`manage.py seed_demo`, which calls the services that REST calls.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from honcho.environ import parse_procfile
from honcho.manager import Manager
from honcho.printer import Message, Printer

from portal.packages import embedded_redis

ROOT = Path(__file__).resolve().parent.parent
TEAMS = "vision:researcher+kim+lead,speech:sam+mia,genomics:noor+eli"
"""Whose past it is: tenants and members of `portal.story`."""
HELPERS = min(2, os.cpu_count() or 1)
"""Processes that compute beside the one that brings the past in."""
# A clean desk for the person at the terminal: celery's advice for servers says nothing about a demo, and
# whitenoise's static files are small enough to be read at once.
QUIET = "ignore:You're running the worker,ignore:StreamingHttpResponse must consume"


class CannotStart(SystemExit):
    """The demo cannot start; the message says what to do."""


def main(argv: list[str] | None = None) -> int:
    """Parse, prepare, then run every part until one ends or a signal comes."""
    options = _options(argv)
    # Sessions, password hashes and tokens are kept in files: for the person who starts the demo alone.
    os.umask(0o077)
    home = Path(os.environ.get("ALLOTMENT_HOME", ROOT / ".demo")).resolve()
    (home / "static-root").mkdir(parents=True, exist_ok=True)
    _require_free(options.port)
    _require_free(options.port + 1)
    redis_port = _first_free(options.port + 10)
    env = _environment(home, options.port, redis_port)
    kubeconfig = _kubeconfig(options.cluster, home)
    with ExitStack() as stack:
        if _has_past(options):
            stack.enter_context(_beside(_written(home, options), env))
        for words in (("migrate",), ("collectstatic", "--noinput")):
            subprocess.run(
                [sys.executable, "manage.py", *words, "--verbosity", "0"], cwd=ROOT, env=env, check=True
            )
        manager = Manager(_Printer(sys.stdout))
        for name, command in _parts(home, options, redis_port, kubeconfig).items():
            manager.add_process(name, command, cwd=str(ROOT), env=env)
        manager.loop()
    return manager.returncode or 0


def _has_past(options: argparse.Namespace) -> bool:
    return bool(options.history and not options.cluster)


@contextmanager
def _beside(command: str, env: Mapping[str, str]) -> Iterator[None]:
    """A command that runs beside what is done in here, and no longer."""
    # Until the supervisor has handlers of its own, this one's end must still come to `finally`.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    process = subprocess.Popen(["/bin/sh", "-c", command], cwd=ROOT, env=env, start_new_session=True)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        signal.signal(signal.SIGTERM, before)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--cluster", default="", help="kubeconfig of a real cluster; empty: the sandbox")
    parser.add_argument("--fleet", default="lab", help="the sandbox's fleet: laptop or lab")
    parser.add_argument("--history", type=int, default=7, help="days of a simulated past; 0: none")
    return parser.parse_args(argv)


def _require_free(port: int) -> None:
    if not _is_free(port):
        raise CannotStart(
            f"Port {port} is taken. Stop what listens there, or choose another: make demo PORT={port + 1}"
        )


def _first_free(port: int) -> int:
    """Not one of the kernel's choice: a client's connection could take that before Redis starts."""
    for each in chain(range(port, 65536), range(1024, port)):
        if _is_free(each):
            return each
    raise CannotStart("No port is free on this machine.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _environment(home: Path, port: int, redis_port: int) -> dict[str, str]:
    return {
        **os.environ,
        "ALLOTMENT_HOME": str(home),
        "ALLOTMENT_DEMO": "1",
        "ALLOTMENT_PORT": str(port),
        "ALLOTMENT_DOOR_PORT": str(port + 1),
        "ALLOTMENT_REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "PYTHONUNBUFFERED": "1",
        # As in the image: Python's threads take turns, so heaps of their own only keep memory back.
        "MALLOC_ARENA_MAX": "1",
        "PYTHONWARNINGS": QUIET,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _kubeconfig(cluster: str, home: Path) -> Path:
    if not cluster:
        return home / "sandbox" / "kubeconfig"
    path = Path(cluster).expanduser().resolve()
    if not path.is_file():
        raise CannotStart(f"There is no kubeconfig at {cluster}. Give CLUSTER=<path to a kubeconfig>.")
    return path


def _parts(home: Path, options: argparse.Namespace, redis_port: int, kubeconfig: Path) -> dict[str, str]:
    redis = (
        f"{redis_server()} --port {redis_port} --bind 127.0.0.1 --dir {home} --save 60 1 "
        # How often it tidies up: ten times a second is for more keys than a demo has.
        f"--hz 2 --appendonly no --logfile {home / 'redis.log'}"
    )
    parts = {"redis": redis, **procfile()}
    simulated = "" if options.cluster else " --simulated"
    url = f"http://127.0.0.1:{options.port}"
    past = _past(home, options) if _has_past(options) else ""
    # It must not end: the supervisor stops everything when one part ends.
    parts["prepare"] = (
        f"python manage.py seed_demo --kubeconfig {kubeconfig} --url {url}{simulated}"
        f" && {{ {past or 'true'}; exec sleep 2147483647; }}"
    )
    if not options.cluster:
        parts["sandbox"] = f"python -m sandbox up --dir {kubeconfig.parent} --fleet {options.fleet}"
    return parts


def procfile() -> dict[str, str]:
    """The parts of an installation and their commands."""
    return dict(parse_procfile((ROOT / "Procfile").read_text()).processes)


def _written(home: Path, options: argparse.Namespace) -> str:
    """A command that simulates the days before this start, once, beside everything else; it leaves its exit
    status. Nothing else is needed for it, so it begins first.

    RULE: days that were written and did not come in stay as they are: others would come in beside their part.
    """
    folder = home / "history"
    until = datetime.now(UTC).replace(microsecond=0).isoformat()
    plan = f"--days {options.history} --fleet {options.fleet} --until {until} --out {folder}"
    write = f"nice -n 15 python -m sandbox history {plan} --tenants {TEAMS}"
    work = f"rm -f {folder}.rc; {write} >{folder}.log 2>&1; echo $? >{folder}.rc"
    return f"test -e {folder}/imported || test -e {folder}/begun || {{ {work}; }}"


def _past(home: Path, options: argparse.Namespace) -> str:
    """Commands that bring the simulated days in, once, behind everything else.

    If this fails, the demo says so and goes on. To bring it in again adds only what is missing.
    """
    folder = home / "history"
    written = f"until test -s {folder}.rc; do sleep 0.2; done; test $(cat {folder}.rc) = 0"
    bring = f"python manage.py import_history {folder} --cluster demo --helpers {HELPERS} 2>>{folder}.log"
    begin = f"touch {folder}/begun"
    keep = f"rm -f {folder}/samples.jsonl {folder}/events.jsonl && touch {folder}/imported"
    tell = f"echo '{options.history} days of simulated history come in behind this; the pages say how far.'"
    again = "The next start brings in what is missing."
    failed = f"echo 'The simulated history did not come in, see {folder}.log. {again}'"
    # Not nice: who holds SQLite's one lock to write and gets no turn to compute keeps all others waiting.
    work = f"{written} && {begin} && {{ {bring} || {bring} || {bring}; }} && {keep}"
    return f"test -e {folder}/imported || {{ {tell}; {work}; }} || {failed}"


def redis_server() -> str:
    """The path of a Redis; ends the demo in words where there is none."""
    if program := embedded_redis.program():
        return program
    raise CannotStart(f"There is no redis-server. {embedded_redis.INSTALL}")


class _Printer(Printer):  # type: ignore[misc]
    """honcho's lines with the part's name in front; what `prepare` says is for the person and stands bare."""

    def write(self, message: Message) -> None:
        """Where nobody reads any more (`make demo | head`), the demo ends, as other programs do."""
        try:
            self._write(message)
        except BrokenPipeError:
            self.output = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the demo's end
            signal.raise_signal(signal.SIGTERM)

    def _write(self, message: Message) -> None:
        if message.name == "prepare" and message.type == "line":
            self.output.write(message.data.decode("utf-8", "replace"))
            self.output.flush()
            return
        super().write(message)


if __name__ == "__main__":
    sys.exit(main())
