"""A PostgreSQL and a Redis of the tests' own: `python -m tests.services up|down --dir DIR`.

`up` prints the shell lines that point the product at them. Both are Debian's programs, found again by their
pid files; PostgreSQL refuses to run as root, so root hands it to the user `postgres`.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.patience import until
from tests.ports import free_port, listens

NAME = "allotment"
PATIENCE = 120.0
"""Seconds for a start; a loaded machine takes long, and no test is decided by that."""


class Missing(SystemExit):
    """A program is not installed; the message names its package."""


def main(argv: list[str] | None = None) -> None:
    """Start or stop both servers in one folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.services")
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("--dir", type=Path, required=True)
    options = parser.parse_args(argv)
    home = options.dir.resolve()
    if options.verb == "down":
        down(home)
        return
    home.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"export ALLOTMENT_DATABASE_URL={postgres(home)}\n")
    sys.stdout.write(f"export ALLOTMENT_REDIS_URL={redis(home)}\n")


def down(home: Path) -> None:
    """Stop what `up` started in this folder, and wait until it is gone."""
    if (home / "postgres").exists():
        stop_postgres(home)
    stop_redis(home)


def stop_redis(home: Path) -> None:
    """With all that it holds; nothing where none runs."""
    pid_file = home / "redis.pid"
    if pid_file.exists():
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        until(lambda: not _lives(pid), "Redis to stop", PATIENCE)


def stop_postgres(home: Path, how: str = "fast") -> None:
    """Its data stay; `how` as `pg_ctl` names it: "immediate" is its death."""
    _as_postgres([str(_postgres_programs() / "pg_ctl"), "-D", str(home / "postgres"), "-m", how, "stop"])


def start_postgres(home: Path) -> None:
    """Start the server of a folder, where it was before; back once it answers."""
    data = home / "postgres"
    command = [str(_postgres_programs() / "pg_ctl"), "-D", str(data), "-w", "-l", str(data / "log"), "start"]
    _as_postgres(command)


def postgres(home: Path) -> str:
    port, data = free_port(), home / "postgres"
    data.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        for folder in (home.parent, home, data):
            folder.chmod(folder.stat().st_mode | 0o755)
        shutil.chown(data, "postgres", "postgres")
    programs = _postgres_programs()
    _as_postgres([str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", NAME, "--no-sync"])
    settings = f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n"
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(settings)
    start_postgres(home)
    _as_postgres([str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", NAME, NAME])
    return f"postgresql://{NAME}@127.0.0.1:{port}/{NAME}"


def redis(home: Path) -> str:
    port = free_port()
    start_redis(home, port)
    return f"redis://127.0.0.1:{port}/0"


def start_redis(home: Path, port: int) -> None:
    """An empty one; back once it answers."""
    server = shutil.which("redis-server")
    if not server:
        raise Missing("There is no redis-server: apt-get install redis-server")
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--daemonize", "yes", "--save", ""]
    subprocess.run(
        [*command, "--dir", str(home), "--pidfile", str(home / "redis.pid")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    until(lambda: listens(port), "Redis to answer", PATIENCE)


def _postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found:
        raise Missing("There is no PostgreSQL server: apt-get install postgresql")
    return found[-1].parent


def _as_postgres(command: list[str]) -> None:
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
