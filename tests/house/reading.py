"""The sources of the house, as its tests read them."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Measured:
    """What the house asks of a function: to keep its tree costs more than to read it again."""

    name: str
    lineno: int
    length: int
    """Lines of the body without its docstring: words about a rule are never too many."""
    thickness: int
    """The same without the signature."""
    parameters: tuple[str, ...]


@cache
def functions(path: Path) -> tuple[Measured, ...]:
    """Read once: five tests ask for the functions of all sources."""
    return tuple(_measured(node) for node in _defined(ast.parse(path.read_text())))


def _defined(node: ast.AST) -> Iterator[Function]:
    """Functions stand in blocks, and so nothing else is looked at."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, block, ()):
            if isinstance(child, Function):
                yield child
            yield from _defined(child)


def _measured(node: Function) -> Measured:
    first = node.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    documented = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    length = (node.end_lineno or 0) - node.lineno + 1 - documented
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    names = tuple(argument.arg for argument in arguments)
    return Measured(node.name, node.lineno, length, length - (first.lineno - node.lineno), names)
