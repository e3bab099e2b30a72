"""The commands of docs/installing.md, as a person would type them."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests import yamls
from tests.chart.helm import ROOT, Document, Helm

GUIDE = ROOT / "docs" / "installing.md"


def blocks(language: str = "sh") -> dict[str, str]:
    """The blocks in `sh`, which the tests of the chart run, or in `console`, by the heading above them."""
    parts = re.split(r"^## (.+)$", GUIDE.read_text(), flags=re.MULTILINE)[1:]
    found = zip(parts[::2], parts[1::2], strict=True)
    return {
        heading: "".join(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        for heading, text in found
        if f"```{language}" in text
    }


def objects(heading: str) -> list[Document]:
    """What the `yaml` blocks under a heading describe, values files left out."""
    text = re.split(rf"^## {heading}$", GUIDE.read_text(), flags=re.MULTILINE)[1]
    written = re.findall(r"^```yaml\n(.*?)^```", text.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    return [body for body in map(yamls.document, written) if "kind" in body]


def replaced(commands: str, ours: Mapping[str, str]) -> str:
    """The guide's commands with our addresses for its examples; one that is absent is an error."""
    for example, own in ours.items():
        assert example in commands, f"the guide has no {example} here"
        commands = commands.replace(example, own)
    return commands


def follow(heading: str, helm: Helm, kubectl: Path, folder: Path) -> str:
    """Run the `sh` commands under a heading in `folder`; the first that fails ends it."""
    return run(blocks()[heading], helm, kubectl, folder)


def run(commands: str, helm: Helm, kubectl: Path, folder: Path) -> str:
    """What these commands of the guide print; the first that fails ends them."""
    programs = f"{helm.program.parent}:{kubectl.parent}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=helm.environment | {"PATH": f"{programs}:{helm.environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout
