"""The gate: `.ci/run` installs what it needs and runs this, `python -m tests.gate`.

Two lanes run side by side, one from the front of SUITES (`make test`), the other from their back, until they
meet: the first computes, the second mostly waits for real parts. What fails runs once more, alone, after both
lanes have ended: what passes then is green and named as unsteady, with its first failure; more than
MOST_UNSTEADY of them are red. A suite that runs no test is red. No suite is ended by a clock, but one that
hangs (HANGS seconds) is asked to stop.

The last lines are the counts, or everything that is red.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = "ALLOTMENT_GATE_SUITE"
"""Names gate and suite in the environment of all that a suite starts, so that nothing outlives it unseen."""
MOST_UNSTEADY = 3
HANGS = 2400.0
NEEDED_BYTES = 4 * 1024**3
PLANE, IN_PROCESS = "plane and not browser", "not plane and not node and not browser"
PYTEST = (".venv/bin/pytest", "-q", "--durations=5")
OWN_SQL = "--own-sql"
AGAIN = ("--last-failed", "--last-failed-no-failures=none")
CAUSES = {
    "address already in use": "A port was taken by another process.",
    "no space left on device": "The disk was full.",
    "cannot allocate memory": "The memory was full.",
}


@dataclass(frozen=True)
class Suite:
    """One command of the gate, and the command that repeats its failed tests alone."""

    name: str
    command: tuple[str, ...]
    again: tuple[str, ...]
    on_servers: bool = True
    """Runs with a PostgreSQL and a Redis instead of SQLite and the embedded Redis."""


def pytest_suite(name: str, *arguments: str, workers: int = 0) -> Suite:
    """A suite of pytest on the servers; `workers` of xdist, of which a repeat has none, nor does it ask
    whether all of our own SQL was called.
    """
    command = (*PYTEST, *arguments)
    spread = ("-n", str(workers), "--dist", "worksteal") if workers else ()
    alone = (word for word in command if word != OWN_SQL)
    return Suite(name, (*command, *spread), (*alone, *AGAIN))


def on_plane(*folders: str) -> Suite:
    """The folders' tests on one real control plane of their own."""
    names = " ".join(folders)
    paths = [f"tests/{folder}" for folder in folders]
    return pytest_suite(f"on the real control plane: {names}", "-m", f"{PLANE} and not exhaustive", *paths)


MAKE_TEST = Suite(
    "make test",
    ("make", "--no-print-directory", "test"),
    ("make", "--no-print-directory", "unit", "WORKERS=0", f"AGAIN={' '.join(AGAIN)}"),
    on_servers=False,
)
# Programs with an SQLite and a Redis of their own, as the demo has them.
PROGRAMS = replace(
    pytest_suite("the product's programs", "-m", f"programs and {IN_PROCESS} and not exhaustive", workers=2),
    on_servers=False,
)
# The demo of the story looks after a whole cluster, and the contract needs one without leftovers: both have a
# plane of their own. The others work in houses of their own and clear them.
SUITES = (
    MAKE_TEST,
    pytest_suite(
        "on PostgreSQL",
        OWN_SQL,
        "-m",
        f"(both_databases or postgres) and {IN_PROCESS} and not exhaustive",
        *(
            f"tests/{folder}"
            for folder in (
                "audit", "accounts", "cluster", "tenants", "quotas", "workloads", "metering", "web", "pages",
                "operate", "drills",
            )
        ),
        workers=2,
    ),
    pytest_suite("in Chromium", "-m", "browser and not exhaustive", "tests/pages", "tests/story"),
    on_plane("contract", "chart"),
    PROGRAMS,
    pytest_suite("on a real node", "-m", "node and not exhaustive", "tests/node"),
    on_plane("controlplane", "cluster", "tenants", "workloads", "quotas", "fence"),
    on_plane("story", "drills"),
)  # fmt: skip


@dataclass
class Result:
    """How a suite ended, and what it said."""

    suite: Suite
    status: int
    text: str
    seconds: float
    failed: tuple[str, ...] = ()
    """Ids of the tests that failed, as a repeat takes them."""
    leftovers: tuple[str, ...] = ()

    @property
    def counts(self) -> str:
        """The last line of counts, or nothing if it ran no test."""
        lines = re.findall(r"^=*\s*(\d[^\n]*\bpassed\b[^\n]*?)\s*=*$", self.text, re.MULTILINE)
        return lines[-1] if lines else ""

    @property
    def is_green(self) -> bool:
        """Whether all passed, and something ran."""
        return self.status == 0 and bool(self.counts)


@dataclass(frozen=True)
class Verdict:
    """What the gate says at its end; `lines` are its last ones."""

    is_green: bool
    lines: list[str]


def judge(first: Sequence[Result], repeated: Mapping[str, Result], expected: Sequence[str]) -> Verdict:
    """Green if every expected suite ran and passed, at once or with its failed tests repeated."""
    counts = [f"{result.suite.name}: {result.counts} ({result.seconds:.0f} s)" for result in first]
    unsteady: list[str] = []
    ran = {result.suite.name for result in first}
    red = [f"FAILED: {name} did not run" for name in expected if name not in ran]
    tests = 0
    for result in (result for result in first if not result.is_green):
        again = repeated.get(result.suite.name)
        if again and again.is_green:
            tests += len(result.failed)
            unsteady += [f"{result.suite.name}: {line}" for line in reasons(result)]
        else:
            red += [f"FAILED: {result.suite.name}", *reasons(again or result)]
    if tests > MOST_UNSTEADY:
        red += [f"FAILED: {tests} tests passed only when repeated; {MOST_UNSTEADY} may", *unsteady]
    if red:
        return Verdict(is_green=False, lines=_shortened(red))
    return Verdict(
        is_green=True, lines=[*counts, "unsteady: none" if not unsteady else "unsteady:", *unsteady]
    )


def reasons(result: Result) -> list[str]:
    """A line for each failing test with its assertion, or for whatever else ended the suite."""
    lines = re.findall(r"^(?:FAILED|ERROR) [^\n]+", result.text, re.MULTILINE)
    if not lines:
        lines = re.findall(r"^(?:E  |make: \*\*\*|[^\n]*\berror\b)[^\n]*", result.text, re.MULTILINE)[-8:]
    known = [words for cause, words in CAUSES.items() if cause in result.text.lower()]
    if not result.counts:
        known.append(f"It ran no test and ended with status {result.status}.")
    return [*(line[:400] for line in lines), *known]


def _shortened(lines: list[str], most: int = 28) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} more, above"]


@dataclass
class Gate:
    """Runs suites below `home`, which keeps what they leave for a repeat."""

    home: Path
    began: float = field(default_factory=time.monotonic)
    running: "set[subprocess.Popen[bytes]]" = field(default_factory=set)
    """Each leads a process group of its own."""
    _printing: threading.Lock = field(default_factory=threading.Lock)

    def say(self, title: str, text: str = "") -> None:
        """Print a step of the gate and what belongs to it, unmixed with the other lane's."""
        with self._printing:
            sys.stdout.write(f"\n=== {title} (after {time.monotonic() - self.began:.0f} s)\n{text}")
            sys.stdout.flush()

    def run(self, suite: Suite, servers: Mapping[str, str], *, is_repeat: bool = False) -> Result:
        """Run a suite, or its failed tests again, and end whatever it leaves running."""
        name = re.sub(r"\W+", "-", suite.name)
        cache, began = self.home / "cache" / name, time.monotonic()
        environment = os.environ | {
            RUN: f"{self.home}/{name}/",
            "ALLOTMENT_GATE": "1",
            "PYTEST_ADDOPTS": f"-o cache_dir={cache}",
            **(servers if suite.on_servers else {}),
        }
        command = suite.again if is_repeat else suite.command
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self.running.add(process)
            status = _ended(process)
            self.running.discard(process)
            log.seek(0)
            text = log.read()
        left = tuple(_end_leftovers(f"{self.home}/{name}/"))
        result = Result(suite, status, text, time.monotonic() - began, _last_failed(cache), left)
        word = "once more, alone" if is_repeat else "green" if result.is_green else "red"
        notes = "".join(f"left running, ended now: {line}\n" for line in left)
        self.say(f"{suite.name}: {word}, {result.seconds:.0f} s", f"{text}{notes}")
        return result

    def end(self) -> None:
        """End what still runs: as by Ctrl-C first, so that pytest takes down what it has started."""
        still = list(self.running)
        for process in still:
            os.killpg(process.pid, signal.SIGINT)
        for process in still:
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
        list(_end_leftovers(f"{self.home}/"))
        for folder in self.home.glob("services-*"):
            services(folder, "down")

    def lane(
        self, queue: "deque[Suite]", results: list[Result], servers: Mapping[str, str], end: int
    ) -> None:
        """One suite after the other, from the front (0) or the back (-1) of what nobody has taken yet."""
        while True:
            try:
                suite = queue.pop() if end else queue.popleft()
            except IndexError:
                return
            results.append(self.run(suite, servers))


def services(folder: Path, verb: str = "up") -> dict[str, str]:
    """The environment of a PostgreSQL and a Redis of one's own, started or (`down`) stopped."""
    lines = subprocess.run(
        [sys.executable, "-m", "tests.services", verb, "--dir", str(folder)],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    exports = [line.removeprefix("export ") for line in lines if line.startswith("export ")]
    return dict(line.split("=", 1) for line in exports)


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """The status. What hangs is asked to end as by Ctrl-C, which keeps the verdict of a finished pytest."""
    for bound, ask in ((HANGS, signal.SIGINT), (60.0, signal.SIGKILL)):
        try:
            return process.wait(bound)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, ask)
    return process.wait()


def _last_failed(cache: Path) -> tuple[str, ...]:
    kept = cache / "v" / "cache" / "lastfailed"
    return tuple(json.loads(kept.read_text())) if kept.exists() else ()


def processes(run: str) -> Iterator[tuple[int, str]]:
    """Id and command line of every process whose RUN begins so."""
    setting = f"{RUN}={run}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                settings = (entry / "environ").read_bytes().split(b"\0")
                if any(each.startswith(setting) for each in settings):
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                    yield int(entry.name), words.strip()[:120]
            except OSError:
                continue  # it ended meanwhile


def _end_leftovers(run: str) -> Iterator[str]:
    for pid, words in processes(run):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        yield f"{words} (process {pid})"


def obstacles(home: Path) -> list[str]:
    """Why the gate could not say anything about the product on this machine."""
    free = shutil.disk_usage(home).free
    needed = [f"{name} is not installed" for name in ("chromium", "redis-server") if not shutil.which(name)]
    if free < NEEDED_BYTES:
        needed.append(
            f"the disk of {home} is full: {free / 1e9:.1f} GB are free, {NEEDED_BYTES / 1e9:.1f} needed"
        )
    return needed


def main() -> int:
    """Run everything; 0 if the gate is green."""
    home = Path(os.environ.get("ALLOTMENT_HOME") or tempfile.mkdtemp(prefix="allotment-gate-"))
    home.mkdir(parents=True, exist_ok=True)
    gate, results = Gate(home), list[Result]()
    if problems := obstacles(home):
        gate.say("RED", "".join(f"{line}\n" for line in problems))
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    queue = deque(SUITES)
    try:
        servers = [services(home / f"services-{lane}") for lane in range(2)]
        lanes = [
            threading.Thread(target=gate.lane, args=(queue, results, servers[lane], -lane), daemon=True)
            for lane in range(2)
        ]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        failed = [result for result in results if result.failed and not result.is_green]
        repeated = {r.suite.name: gate.run(r.suite, servers[0], is_repeat=True) for r in failed}
    finally:
        queue.clear()
        gate.end()
    verdict = judge(results, repeated, [suite.name for suite in SUITES])
    gate.say("done" if verdict.is_green else "RED", "".join(f"{line}\n" for line in verdict.lines))
    return 0 if verdict.is_green else 1


if __name__ == "__main__":
    sys.exit(main())
