"""Which secrets may be set. Pure. No refusal repeats a value."""

import re
from collections.abc import Sequence

from apps.errors import FieldProblem
from apps.workloads import registry
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.spec import parsing
from apps.workloads.spec.field_reader import SURROGATE

MOST_SECRETS = 20
LONGEST_VALUE = 32 * 1024
"""Bytes. Twenty of them stay below what a Secret holds, and each below what a variable holds."""
LONGEST_NAME = 128
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def problems_of(wish: SecretWish, *, at: str = "") -> list[FieldProblem]:
    """What is wrong with one."""
    problems = []
    if name := _wrong_name(wish):
        problems.append(FieldProblem(f"{at}/name", *name))
    size = len(wish.value.encode("utf-8", "replace"))
    if not 1 <= size <= LONGEST_VALUE:
        problems.append(FieldProblem(f"{at}/value", "out_of_range", f"From 1 to {LONGEST_VALUE:,} bytes."))
    elif "\0" in wish.value or SURROGATE.search(wish.value):
        words = "Text without NUL: encode what is not, such as with base64."
        problems.append(FieldProblem(f"{at}/value", "invalid_value", words))
    return problems


def problems_of_all(wishes: Sequence[SecretWish]) -> list[FieldProblem]:
    """What is wrong with those of a new workload."""
    if len(wishes) > MOST_SECRETS:
        return [too_many()]
    problems = [p for n, wish in enumerate(wishes) for p in problems_of(wish, at=f"/secrets/{n}")]
    seen: set[str] = set()
    for number, wish in enumerate(wishes):
        if wish.name in seen:
            words = "Give each secret its own name."
            problems.append(FieldProblem(f"/secrets/{number}/name", "invalid_value", words))
        seen.add(wish.name)
    return problems


def too_many() -> FieldProblem:
    """The refusal of one more."""
    words = f"A workload has at most {MOST_SECRETS} secrets: remove one first."
    return FieldProblem("/secrets", "out_of_range", words)


def _wrong_name(wish: SecretWish) -> tuple[str, str] | None:
    if wish.into is Into.FILE:
        words = "A file's name: letters, digits, dot, _ and -, starting with a letter or digit."
        return None if _FILE.fullmatch(wish.name) else ("invalid_value", words)
    if not parsing.VARIABLE.fullmatch(wish.name):
        return "invalid_value", "A variable's name: letters, digits and _, not starting with a digit."
    is_ours = registry.is_reserved(wish.name, registry.reserved_variables())
    if is_ours or wish.name.upper().startswith(parsing.FORBIDDEN_VARIABLES):
        return "reserved_name", "Only the platform sets this variable."
    return None
