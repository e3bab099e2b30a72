"""Golden manifests: whole documents that pure renderers are compared with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import yamls

HERE = Path(__file__).parent


def golden(name: str) -> list[dict[str, Any]]:
    """The documents of `tests/golden/<name>.yaml`."""
    return yamls.documents((HERE / f"{name}.yaml").read_text())


def differs(name: str, manifests: Sequence[dict[str, Any]]) -> str:
    """Empty when equal; else the rendered documents, ready to be read and, if right, put into the file."""
    if golden(name) == list(manifests):
        return ""
    return yaml.safe_dump_all(manifests, sort_keys=False, width=110)
