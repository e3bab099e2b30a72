"""Which slugs departments and tenants may have, and how one is made of a name. Pure."""

import re
from collections.abc import Callable

from apps.cluster.objects import names
from apps.errors import FieldProblem

RESERVED = re.compile(r"default|(kube|allotment)(-.*)?")
_FORM = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")


def problem_of(slug: str, pointer: str = "/slug") -> FieldProblem | None:
    """Rule: RFC 1123 label of at most 40 characters that starts with a letter; names the cluster needs are
    reserved.
    """
    if not _FORM.fullmatch(slug):
        words = (
            "Use 1 to 40 lowercase letters, digits and dashes; start with a letter, do not end with a dash."
        )
        return FieldProblem(pointer, "invalid_value", words)
    if RESERVED.fullmatch(slug):
        return FieldProblem(
            pointer, "reserved_name", f"{slug} is reserved: default, kube-* and allotment-* are."
        )
    return None


def slug_for(name: str, is_taken: Callable[[str], bool]) -> str:
    """A free slug made of a name people typed; a number is added until it is neither taken nor reserved."""
    base = names.slugify(name)
    slug, number = base, 2
    while is_taken(slug) or problem_of(slug):
        slug = names.slugify(f"{'team-' if problem_of(base) else ''}{base[:32]}-{number}")
        number += 1
    return slug
