"""The README's own command brings everything that a cluster needs. That it works, every test on the plane
tells: it is set up with that line (tests/controlplane/plane.py).
"""

from pathlib import Path

import yaml

from tests.controlplane import plane

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = {"agent.yaml"}
"""An alternative to dcgm-exporter, which nobody must have (docs/agent.md)."""
COMMAND = "kubectl apply -k k8s"


def test_one_command_brings_every_file_that_the_product_needs() -> None:
    folder = ROOT / "k8s"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    needed = {file for file in (folder / "allotment/templates").glob("*.yaml") if file.name not in CHOSEN}
    assert {folder / name for name in listed} == needed


def test_the_plane_runs_the_readmes_own_lines() -> None:
    assert plane.cluster_lines() == [COMMAND.removeprefix("kubectl ").split()]
    assert f"`{COMMAND}`" in (ROOT / "docs/operating.md").read_text()
