"""Every import contract can fail: each is broken on purpose in a copy of the tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VIOLATIONS = {
    "The order of the apps": ("apps/tenants/specs.py", "import apps.workloads.specs"),
    "The floors of every app": ("apps/workloads/selectors.py", "import apps.workloads.services"),
    "The pages and REST do not know each other": (
        "portal/pages/parts/htmx.py",
        "import portal.api.base.paging",
    ),
    "The rooms of the pages": ("portal/pages/team/usage/bill.py", "import portal.pages.console.fleet.fleet"),
    "The resources of REST": ("portal/api/quotas/quotas.py", "import portal.api.tenants.tenants"),
    "Nobody opens the gateway but those named here": (
        "apps/workloads/services.py",
        "import apps.cluster.gateway",
    ),
    "Pure modules know neither Django nor the Kubernetes client": (
        "apps/quotas/ledger.py",
        "import apps.quotas.models",
    ),
    "The Kubernetes client is imported in one module only": (
        "apps/tenants/reconcile.py",
        "import kubernetes",
    ),
    "The product and the sandbox do not know each other": ("apps/cluster/watch.py", "import sandbox"),
    "The sandbox knows nothing of the portal": ("portal/context.py", "import sandbox"),
    "The node agent knows neither the product": ("agent/table.py", "import django"),
    "Nobody imports the node agent": ("apps/metering/specs.py", "import agent"),
}


def lint(tree: Path) -> tuple[int, str]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
        ],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in ("apps", "portal", "sandbox", "agent"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.json", "__pycache__")
        )
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_every_contract_has_a_violation_that_proves_it() -> None:
    contracts = [
        line.removeprefix("name = ")
        for line in (ROOT / ".importlinter").read_text().splitlines()
        if line.startswith("name = ")
    ]
    for contract in contracts:
        assert any(contract.startswith(start) for start in VIOLATIONS), contract


@pytest.mark.parametrize(
    ("contract", "room"), [("The rooms of the pages", "pages"), ("The resources of REST", "api")]
)
def test_a_surface_that_stands_in_no_room_breaks_the_contract(contract: str, room: str, tree: Path) -> None:
    (tree / "portal" / room / "elsewhere.py").write_text('"""Nowhere."""\n')
    code, output = lint(tree)
    assert code != 0
    assert "elsewhere" in output, contract


@pytest.mark.parametrize(
    "module",
    [
        "portal.handlers",
        "apps.metering.services",
        "apps.quotas.services",
        "apps.tenants.services",
        "apps.web.events",
    ],
)
def test_the_door_is_closed_to_whom_nobody_named(module: str, tree: Path) -> None:
    file = tree / (module.replace(".", "/") + ".py")
    file.write_text(file.read_text() + "\nimport apps.cluster.gateway\n")
    code, output = lint(tree)
    assert code != 0
    assert "Nobody opens the gateway but those named here BROKEN" in output


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_deliberate_violation_breaks_its_contract(contract: str, tree: Path) -> None:
    path, violation = VIOLATIONS[contract]
    file = tree / path
    file.write_text(file.read_text() + f"\n{violation}\n")
    code, output = lint(tree)
    assert code != 0, output
    broken = [line for line in output.splitlines() if " BROKEN" in line]
    assert any(line.strip().startswith(contract) for line in broken), output
