"""Detached processes that a later command, or another Python process, can still find and stop.

A record holds the process id and its start time, so that a reused id is never mistaken for ours.
Knows nothing about Kubernetes. Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.patience import within

_POLL = 0.05
_KILL_SECONDS = 10.0


@dataclass(frozen=True)
class Record:
    """One process that we started: `started` is field 22 of /proc/<pid>/stat, in clock ticks since boot."""

    pid: int
    started: int


def spawn(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Record:
    """Starts in its own session, so that Ctrl-C on the launcher does not reach it; output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    # The record is the owner from here on; `is_running` reaps, so Popen must not complain at exit.
    child.returncode = 0
    fields = _stat(child.pid)
    return Record(child.pid, int(fields[1]) if fields else 0)


def is_running(record: Record) -> bool:
    """False for a finished, a reaped and a zombie process, and for a process id that someone else has now."""
    _reap(record.pid)
    fields = _stat(record.pid)
    return fields is not None and fields[0] != "Z" and int(fields[1]) == record.started


def is_paused(record: Record) -> bool:
    """True between SIGSTOP and SIGCONT."""
    fields = _stat(record.pid)
    return fields is not None and fields[0] == "T" and int(fields[1]) == record.started


def send(record: Record, number: signal.Signals) -> None:
    """Signals the process if it is still ours."""
    if is_running(record):
        os.kill(record.pid, number)


def stop(record: Record, grace: float) -> None:
    """Terminates, kills after `grace` seconds (at once for 0), and returns when the process is gone."""
    if grace:
        send(record, signal.SIGTERM)
        # A paused process acts on SIGTERM only once it runs again.
        send(record, signal.SIGCONT)
    if not grace or not _wait_gone(record, grace):
        send(record, signal.SIGKILL)
        _wait_gone(record, _KILL_SECONDS)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message."""
    if not log.exists():
        return f"(no log at {log})"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _wait_gone(record: Record, timeout: float) -> bool:
    deadline = within(timeout)
    while is_running(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        # Not our child: started by an earlier launcher, and reaped by its new parent.
        return


def _stat(pid: int) -> tuple[str, str] | None:
    """State letter and start time; the name in between may hold spaces, so split after its bracket."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], fields[19]
