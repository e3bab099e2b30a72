"""The sources of the house, as its tests read them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("apps", "portal", "sandbox", "agent")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return tuple(ROOT / line for line in listed.splitlines() if (ROOT / line).is_file())


def sources(*, tests: bool = False) -> Iterator[Path]:
    tops = (*PRODUCT, "tests", "bench") if tests else PRODUCT
    for path in tracked():
        parts = path.relative_to(ROOT).parts
        if path.suffix == ".py" and parts[0] in tops and "migrations" not in parts:
            yield path


@cache
def functions(path: Path) -> tuple[Function, ...]:
    """Read once: five tests ask for the functions of all sources."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function))
