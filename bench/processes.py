"""The processes of the product and of the plane: CPU time, memory, standing still. Linux only: /proc."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """All that this process has started, at any depth."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def command(pid: int) -> str:
    """Its command line, or nothing when it has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes until now, and of their children that have ended."""
    every = filter(None, map(_stat, pids))
    return sum(sum(map(int, fields[11:15])) for fields in every) / TICKS


def proportional_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes: a page that several share counts for each by its share (PSS)."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


@contextmanager
def standing_still(pids: list[int]) -> Iterator[None]:
    """SIGSTOP for a while: what is measured meanwhile has the machine to itself."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def until_quiet(pids: list[int], *, share: float = 0.25, window: float = 1.0, seconds: float) -> None:
    """Until these processes together took less than this share of one core in a whole window."""
    deadline = time.monotonic() + seconds
    before = cpu_seconds(pids)
    while time.monotonic() < deadline:
        time.sleep(window)
        now = cpu_seconds(pids)
        if now - before < share * window:
            return
        before = now
    raise TimeoutError(f"the machine did not become quiet in {seconds:.0f} s")


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
