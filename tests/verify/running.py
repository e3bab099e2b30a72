"""Runs one suite, with the servers that it wants, and says what came of it."""

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
from typing import Any
from xml.etree import ElementTree as ET

from tests.controlplane import binaries, rights
from tests.controlplane.plane import CHART
from tests.door import envoy
from tests.node import programs
from tests.node.images import recipes
from tests.verify.suite import Suite
from tests.verify.suites import SUITES, USES_RIGHTS
from tests.verify.tree import ROOT, commit

LEGACY = ("-o", "junit_family=xunit1")
"""The form of the report that keeps what a test recorded."""
KEPT = ROOT / ".verify" / "rights"
"""What each suite on a plane used of the product's rights."""
LONGEST = 3 * 3600
"""Seconds that one pytest may take; twice what the longest suite took. A thread that still serves a stream
keeps a finished pytest from ending: it is asked to, and its verdict stays.
"""


@dataclass(frozen=True)
class Outcome:
    """What pytest wrote down: how many tests, failed and skipped, and the figures that they recorded."""

    tests: int = 0
    failed: int = 0
    skipped: int = 0
    figures: dict[str, str] = field(default_factory=dict)
    held: bool = False

    @classmethod
    def read(cls, report: Path) -> "Outcome":
        """From a JUnit report; the figures of tests of the same name differ in their parameters."""
        if not report.exists():
            return cls()
        tests = failed = skipped = 0
        figures: dict[str, str] = {}
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by our own pytest
            tests += 1
            failed += any(case.find(kind) is not None for kind in ("failure", "error"))
            skipped += case.find("skipped") is not None
            for entry in case.iter("property"):
                figures[f"{case.get('name')}: {entry.get('name')}"] = str(entry.get("value"))
        return cls(tests, failed, skipped, figures)

    @classmethod
    def of(cls, parts: "Sequence[Outcome]") -> "Outcome":
        """All of them together."""
        figures = {name: figure for part in parts for name, figure in part.figures.items()}
        tests, failed, skipped = (
            sum(getattr(part, count) for part in parts) for count in ("tests", "failed", "skipped")
        )
        return cls(tests, failed, skipped, figures, all(part.held for part in parts))


def run(name: str) -> dict[str, Any]:
    """One suite; what came of it, with the commit that it began at."""
    suite, at = SUITES[name], commit()
    _build(suite)
    began = time.monotonic()
    outcome = _judged(suite) if suite.judges else _tested(name, at)
    return {
        "suite": name,
        "proves": suite.proves,
        "commit": at,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - began),
        "settings": dict(suite.settings),
        "tests": outcome.tests,
        "failed": outcome.failed,
        "skipped": outcome.skipped,
        "figures": outcome.figures,
        "result": "held" if outcome.held else "FAILED",
    }


def to_run_before(name: str) -> list[str]:
    """The suites that this one judges and that have not run at this commit."""
    at = commit()
    return [other for other in SUITES[name].judges if " " in at or _kept(other).get("commit") != at]


def _tested(name: str, at: str) -> Outcome:
    """What one folder leaves on a plane must not decide another, so each has its own where they are alone."""
    suite = SUITES[name]
    parts = [(place,) for place in suite.tests] if suite.alone else [suite.tests]
    with tempfile.TemporaryDirectory(prefix="allotment-verify-") as folder, _servers(suite, folder) as env:
        audit, settings = Path(folder, "audit"), dict(suite.settings)
        if name in USES_RIGHTS:
            settings["ALLOTMENT_AUDIT_DIR"] = str(audit)
        done = Outcome.of(
            [_pytest((*part, *suite.options), {**env, **settings}, Path(folder)) for part in parts]
        )
        if name in USES_RIGHTS:
            KEPT.mkdir(parents=True, exist_ok=True)
            used = rights.use(rights.logs([audit])).stored()
            (KEPT / f"{name}.json").write_text(json.dumps({"commit": at, **used}))
    return done


def _judged(suite: Suite) -> Outcome:
    """Each right of the chart against the calls of all suites together: one suite uses a part of them."""
    used = rights.Use.together(_kept(name) for name in suite.judges)
    verdict = rights.judge(used, rights.chart_documents(CHART / "rbac.yaml"), rights.UNSHOWN)
    sys.stdout.write(f"{verdict.table}\n")
    return Outcome(
        len(verdict.chart), len(verdict.unused | verdict.missing), 0, verdict.figures, verdict.holds
    )


def _kept(name: str) -> dict[str, Any]:
    """What a suite used of the rights at its last run."""
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"used": [], "refused": []}


def _pytest(tests: Sequence[str], env: Mapping[str, str], folder: Path) -> Outcome:
    """One pytest; no test at all has not held."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    limited = [
        "timeout",
        "--foreground",
        "--preserve-status",
        "--signal=INT",
        "--kill-after=120",
        str(LONGEST),
    ]
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *LEGACY, *tests]
    code = subprocess.run([*limited, *command], cwd=ROOT, env=env, check=False).returncode
    outcome = Outcome.read(report)
    return replace(outcome, held=code == 0 and outcome.tests > 0)


def _build(suite: Suite) -> None:
    """What Go has to compile is there before the first test: minutes that no test's time limit allows for."""
    if suite.on_plane:
        binaries.ensure()
    if suite.with_flux:
        binaries.ensure(binaries.FLUX)
    if suite.with_gateway:
        binaries.ensure(binaries.GATEWAY_CONTROLLER)
        envoy.program()
    if suite.on_nodes:
        recipes.ensure(binaries.ensure(programs.NODE))
        binaries.ensure(programs.DNS)


@contextmanager
def _servers(suite: Suite, folder: str) -> Iterator[dict[str, str]]:
    """The environment: nothing is left out, what cannot run fails, and a PostgreSQL and a Redis of its own
    where the suite wants them.
    """
    limits = {"ALLOTMENT_PATIENCE": "1"} if suite.settings else {}
    whole = {"EXHAUSTIVE": "1", "ALLOTMENT_GATE": "1", "ALLOTMENT_HOME": f"{folder}/home"}
    env = {**limits, **os.environ, **whole}
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
