"""The long drills: `python -m tests.verify SUITE`, or `make verify SUITE=...`, runs one and reports.

The gate runs the same tests in a short form. A figure without the commit it was measured at is worth nothing,
so the summary names it, and says when the checkout differs from it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.controlplane import binaries, rights
from tests.controlplane.plane import CHART
from tests.node import programs
from tests.node.images import recipes

ROOT = Path(__file__).resolve().parent.parent
DRILLS = "tests/drills"
LEGACY = ("-o", "junit_family=xunit1")
"""The form of the report that keeps what a test recorded."""
WITHOUT_PLANE, PLANE_ALONE = ("-m", "not plane"), ("-m", "plane and not browser")
GATE_ON_PLANE = ("controlplane", "cluster", "tenants", "quotas", "workloads", "fence", "drills", "story")
"""What `.ci/run` runs on the real plane as the product; `contract`, `chart`: as an administrator."""


@dataclass(frozen=True)
class Suite:
    """One long run: what it proves, its tests, and the settings that make them long."""

    proves: str
    tests: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    on_postgres: bool = False
    on_plane: bool = False
    with_flux: bool = False
    on_nodes: bool = False
    judges_rights: bool = False
    """Each of its folders runs alone, on a plane of its own whose audit log is kept, and all are judged."""


SUITES: dict[str, Suite] = {
    "crash": Suite(
        "a worker may die before and after every call and every database write",
        (f"{DRILLS}/test_crash_at_every_write.py", f"{DRILLS}/test_lost_answers.py"),
        {"DRILL_CRASH_EVERY": "1"},
    ),
    "schedules": Suite(
        "lost, repeated and reordered hints: the last generation wins in every schedule",
        (f"{DRILLS}/test_queue_is_a_hint.py",),
        {"DRILL_SCHEDULES": "1050", "DRILL_STEPS": "40"},
    ),
    "race": Suite(
        "100 ask for the last slice, on the sandbox",
        (f"{DRILLS}/test_last_slice.py",),
        {"DRILL_RACE_ROUNDS": "200", "DRILL_RACE_ASKERS": "100"},
    ),
    "budget-race": Suite(
        "100 ask while a budget runs out: it is overrun by at most one billing tick",
        (f"{DRILLS}/test_budget_race.py",),
        {"DRILL_BUDGET_ASKERS": "100"},
    ),
    "race-plane": Suite(
        "100 ask for the last slice at once, over REST on the real control plane",
        (f"{DRILLS}/test_on_plane.py", "-k", "last_slice"),
        {"DRILL_PLANE_ROUNDS": "20", "DRILL_PLANE_ASKERS": "100"},
        on_plane=True,
    ),
    "kill": Suite(
        "24 workers killed at work with SIGKILL, 6 asleep past their lease, on the real control plane",
        (f"{DRILLS}/test_real_workers.py",),
        {"DRILL_KILLS": "24", "DRILL_SLEEPS": "6"},
        on_plane=True,
    ),
    "redis": Suite(
        "the queue emptied in a burst of 200 requests, 20 at once, and hanging for 60 s, on the real plane",
        (f"{DRILLS}/test_real_redis.py",),
        {"DRILL_BURST": "200", "DRILL_AT_ONCE": "20", "DRILL_REDIS_SECONDS": "60"},
        on_plane=True,
    ),
    "hung": Suite(
        "the real API server stands still for 60 s: the portal answers and says since when",
        (f"{DRILLS}/test_on_plane.py", "-k", "hung"),
        {"DRILL_HUNG_SECONDS": "60"},
        on_plane=True,
    ),
    "predict": Suite(
        "200 changes of quota: what was predicted is what Kueue then did, on the real control plane",
        ("tests/quotas/test_predict_on_plane.py",),
        {"PREDICT_CASES": "200"},
        on_plane=True,
    ),
    "advice": Suite(
        "300 times advice that says it starts now, and 300 times less of what waits: the scheduler agrees",
        ("tests/workloads/test_advice_scored.py",),
        {"ADVICE_SITUATIONS": "300"},
    ),
    "vcluster": Suite(
        "a virtual cluster installed, put to sleep, woken and removed by the real Flux; accounts inside",
        ("tests/isolation/test_vcluster.py", "tests/tenants/test_inside_on_plane.py"),
        {"REVOKED_WITHIN": "1"},
        on_plane=True,
        with_flux=True,
    ),
    "nodes": Suite(
        "dedicated nodes and shared GPUs: no two tenants on a node, counted on the real scheduler",
        ("tests/isolation/test_nodes.py",),
        on_plane=True,
    ),
    "node": Suite(
        "containers on a real node: start and end, memory, images, disks, a power cut, two nodes",
        ("tests/node",),
        on_plane=True,
        on_nodes=True,
    ),
    "rights": Suite(
        "no right that is not used and none missing: every suite on the real plane, by the audit logs",
        tuple(f"tests/{folder}" for folder in (*GATE_ON_PLANE, "isolation")),
        on_plane=True,
        with_flux=True,
        judges_rights=True,
    ),
    "plane": Suite("everything on the real control plane, once", (DRILLS, "-m", "plane"), on_plane=True),
    "postgres": Suite(
        "every drill in process on PostgreSQL and a real Redis", (DRILLS, *WITHOUT_PLANE), on_postgres=True
    ),
    "histories": Suite(
        "200 random histories of tenancy and quota: the cluster is as after a fresh creation, no orphans",
        ("tests/tenants/test_histories.py",),
        {"DRILL_HISTORIES": "200", "DRILL_HISTORY_STEPS": "25"},
    ),
    "queue-growth": Suite(
        "asking for one's place costs the same from 10 to 10,000 waiting",
        (f"{DRILLS}/test_queue_growth.py",),
        {"DRILL_WAITING": "10000"},
    ),
    "tenant-growth": Suite(
        "a tenant costs the same among 10, 1,000 and 10,000: writes, pages, watches, memory",
        (f"{DRILLS}/test_tenant_growth.py",),
        {"DRILL_TENANTS": "10000"},
    ),
    "detectors": Suite(
        "the detector on 200 unseen seeds of two generators: precision and recall of every finding",
        ("tests/metering/test_detector.py",),
        {"DETECTOR_FIRST_SEED": "201", "DETECTOR_SEEDS": "200"},
    ),
    "ledger": Suite(
        "100,000 random events, with re-cuts, late data and corrections: every share is somebody's, once",
        (
            "tests/metering/test_ledger.py",
            "tests/metering/test_rolling.py",
            "tests/metering/test_rolling_at_once.py",
            "tests/metering/test_verify_ledger.py",
        ),
        {"LEDGER_EVENTS": "100000", "LEDGER_ROLLS": "120"},
        on_postgres=True,
    ),
    "streams": Suite(
        "every stream ends within a second of its right's end; 200 follow a log, first byte within 500 ms",
        ("tests/workloads/test_stream_rights.py", "tests/workloads/test_followers.py"),
        {"STREAM_ENDS_WITHIN": "1", "FOLLOWERS_FIRST_BYTE_MS": "500"},
    ),
    "fuzz": Suite(
        "20,000 random requests of every role against the OpenAPI document, and sequences along its links",
        ("tests/fuzz",),
        {"FUZZ_CASES": "24000"},
    ),
    "bodies": Suite(
        "every hostile value in every field, query, address and form; what costs much within its budget",
        ("tests/hostile",),
        {"EXHAUSTIVE": "1"},
    ),
    "looks": Suite(
        "every page in Chromium in each size and each theme: axe finds nothing, and nothing is too wide",
        ("tests/pages", "-m", "browser"),
        {"EXHAUSTIVE": "1"},
    ),
    "drills": Suite("every drill in process, in its short form", (DRILLS, *WITHOUT_PLANE)),
}


@dataclass(frozen=True)
class Outcome:
    """What pytest wrote down: how many tests, how many failed, and the figures that they recorded."""

    tests: int
    failed: int
    figures: dict[str, str]
    held: bool = False

    @classmethod
    def read(cls, report: Path) -> "Outcome":
        """From a JUnit report; the figures of tests of the same name are told apart by their parameters."""
        tests = failed = 0
        figures: dict[str, str] = {}
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by our own pytest
            tests += 1
            failed += any(case.find(kind) is not None for kind in ("failure", "error"))
            for entry in case.iter("property"):
                figures[f"{case.get('name')}: {entry.get('name')}"] = str(entry.get("value"))
        return cls(tests, failed, figures)

    @classmethod
    def of(cls, parts: "Sequence[Outcome]") -> "Outcome":
        """All of them together."""
        figures = {name: figure for part in parts for name, figure in part.figures.items()}
        counts = sum(part.tests for part in parts), sum(part.failed for part in parts)
        return cls(*counts, figures, all(part.held for part in parts))


def main(argv: list[str] | None = None) -> int:
    """Run one suite; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES), metavar="SUITE", help=", ".join(sorted(SUITES)))
    suite = SUITES[parser.parse_args(argv).suite]
    _build(suite)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="allotment-verify-") as folder, _servers(suite, folder) as env:
        run = _judged if suite.judges_rights else _run
        outcome = run(suite.tests, {**env, **suite.settings}, Path(folder))
    summary = {
        "suite": next(name for name, found in SUITES.items() if found is suite),
        "proves": suite.proves,
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - began),
        "settings": dict(suite.settings),
        "tests": outcome.tests,
        "failed": outcome.failed,
        "figures": outcome.figures,
        "result": "held" if outcome.held else "FAILED",
    }
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    return 0 if summary["result"] == "held" else 1


def _run(tests: Sequence[str], env: Mapping[str, str], folder: Path) -> Outcome:
    """One pytest; no test at all has not held."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *LEGACY, *tests]
    code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    found = Outcome.read(report)
    return replace(found, held=code == 0 and found.tests > 0)


def _judged(tests: Sequence[str], env: Mapping[str, str], folder: Path) -> Outcome:
    """What one suite leaves on a plane must not decide another, so each has its own."""
    kept = Path(env.get("ALLOTMENT_AUDIT_DIR") or folder / "audit")
    settings = {**env, "ALLOTMENT_AUDIT_DIR": str(kept)}
    done = Outcome.of([_run((place, *PLANE_ALONE), settings, folder) for place in tests])
    verdict = rights.judge([kept], rights.chart_documents(CHART / "rbac.yaml"), frozenset())
    sys.stdout.write(f"{verdict.table}\n")
    return replace(done, figures=done.figures | verdict.figures, held=done.held and verdict.holds)


def _build(suite: Suite) -> None:
    """What Go has to compile is there before the first test: minutes that no test's time limit allows for."""
    if suite.on_plane:
        binaries.ensure()
    if suite.with_flux:
        binaries.ensure(binaries.FLUX)
    if suite.on_nodes:
        recipes.ensure(binaries.ensure(programs.NODE))


@contextmanager
def _servers(suite: Suite, folder: str) -> Iterator[dict[str, str]]:
    """The environment, with a PostgreSQL and a Redis of its own where the suite wants them."""
    env = {"ALLOTMENT_PATIENCE": "1", **os.environ, "ALLOTMENT_HOME": f"{folder}/home"}
    Path(folder, "home").mkdir()
    if not suite.on_postgres:
        yield env
        return
    services = [sys.executable, "-m", "tests.services"]
    where = ["--dir", f"{folder}/services"]
    Path(folder).chmod(0o755)
    lines = subprocess.run(
        [*services, "up", *where], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    exports = [line.removeprefix("export ") for line in lines.splitlines() if line.startswith("export ")]
    try:
        yield env | dict(line.split("=", 1) for line in exports)
    finally:
        subprocess.run([*services, "down", *where], cwd=ROOT, check=True)


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (
        " with local changes" if git("status", "--porcelain") else ""
    )


if __name__ == "__main__":
    sys.exit(main())
