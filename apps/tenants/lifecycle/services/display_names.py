"""What tenants, departments and service accounts are called on pages: two may have one name, as their slugs
tell them apart, but none may pass for another's.
"""

import re
from typing import Any

from django.db.models import QuerySet

from apps.errors import FieldProblem, Invalid
from apps.web.shapes.likeness import folded, mixed_scripts, skeleton


def require_unlike(name: str, others: QuerySet[Any]) -> None:
    """Raises Invalid for a word of several scripts that share looks, and, naming the other, for a name that
    only letters of another script tell from that of one of these rows.
    """
    for word in re.findall(r"\w+", name):
        if mixed := mixed_scripts(word):
            raise _invalid(f"{word} mixes {' and '.join(mixed)} letters, which look alike: use one script.")
    for other in others.values_list("name", flat=True):
        if skeleton(other) == skeleton(name) and folded(other) != folded(name):
            raise _invalid(f"{name} resembles {other}, in letters of another script.")


def _invalid(words: str) -> Invalid:
    return Invalid([FieldProblem("/name", "invalid_value", words)])
