"""The commands of docs/installing.md, as a person would type them."""

import re
import subprocess
from pathlib import Path

from tests import yamls
from tests.chart.helm import ROOT, Document, Helm

GUIDE = ROOT / "docs" / "installing.md"


def blocks() -> dict[str, str]:
    """Each `sh` block by the heading that it stands under."""
    parts = re.split(r"^## (.+)$", GUIDE.read_text(), flags=re.MULTILINE)[1:]
    found = zip(parts[::2], parts[1::2], strict=True)
    return {
        heading: "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        for heading, text in found
        if "```sh" in text
    }


def objects(heading: str) -> list[Document]:
    """What the `yaml` blocks under a heading describe, values files left out."""
    text = re.split(rf"^## {heading}$", GUIDE.read_text(), flags=re.MULTILINE)[1]
    written = re.findall(r"^```yaml\n(.*?)^```", text.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    return [body for body in map(yamls.document, written) if "kind" in body]


def follow(heading: str, helm: Helm, kubectl: Path, folder: Path) -> str:
    """Run the commands under a heading in `folder`; the first that fails ends it."""
    programs = f"{helm.program.parent}:{kubectl.parent}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", blocks()[heading]],
        cwd=folder,
        env=helm.environment | {"PATH": f"{programs}:{helm.environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, f"{heading}\n{done.stdout}\n{done.stderr}"
    return done.stdout
