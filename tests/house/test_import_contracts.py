"""Every import contract can fail: each is broken on purpose in a copy of the tree."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VIOLATIONS = {
    "The order of the apps": ("apps/tenants/specs.py", "import apps.workloads.specs"),
    "The pages and REST do not know each other": (
        "portal/pages/parts/htmx.py",
        "import portal.api.base.paging",
    ),
    "Nobody opens the gateway but those named here": (
        "apps/workloads/lifecycle/services/verbs.py",
        "import apps.cluster.gateway.port",
    ),
    "Pure modules know neither Django nor the Kubernetes client": (
        "apps/quotas/allowances/rules/fit.py",
        "import apps.quotas.models",
    ),
    "The Kubernetes client is imported in one module only": (
        "apps/tenants/lifecycle/services/reconcile.py",
        "import kubernetes",
    ),
    "OpenTelemetry is imported in one module only": ("portal/context.py", "import opentelemetry"),
    "The product and the sandbox do not know each other": (
        "apps/cluster/watching/services/watch.py",
        "import sandbox",
    ),
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


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The contracts that are broken in a copy of the tree with all violations in it.

    `make contracts` shows that the tree as it stands breaks none.
    """
    tree = tmp_path_factory.mktemp("tree")
    for package in ("apps", "portal", "sandbox", "agent"):
        shutil.copytree(
            ROOT / package, tree / package, ignore=shutil.ignore_patterns("*.json", "__pycache__")
        )
    shutil.copy(ROOT / ".importlinter", tree)
    for path, violation in VIOLATIONS.values():
        with (tree / path).open("a") as file:
            file.write(f"\n{violation}\n")
    code, output = lint(tree)
    assert code != 0, output
    return [line.strip() for line in output.splitlines() if " BROKEN" in line]


def test_every_contract_has_a_violation_that_proves_it() -> None:
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    # Those of rooms are broken in every room, by `test_rooms`.
    contracts = [words["name"] for words in config.values() if "name" in words and "containers" not in words]
    for contract in contracts:
        assert any(contract.startswith(start) for start in VIOLATIONS), contract


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_deliberate_violation_breaks_its_contract(contract: str, broken: list[str]) -> None:
    assert any(line.startswith(contract) for line in broken), broken
