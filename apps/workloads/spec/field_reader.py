"""Reads one JSON object field by field and gathers every problem with its JSON pointer. Pure.

It knows nothing of workloads: which fields there are, and what they mean, is `apps.workloads.spec.parsing`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from apps.errors import MOST_PROBLEMS, FieldProblem
from apps.ranges import Range
from apps.web.shapes.typed import Keywords, keywords
from apps.words import nearest

SURROGATE = re.compile("[\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters besides tab and newline: no name, argument or variable needs one."""


def bounded(within: Range) -> Keywords:
    """The range of a whole number as a request's shape says it."""
    return keywords(minimum=within.least, maximum=within.most)


def escaped(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901), unprintable characters made visible."""
    shown = key.encode("utf-8", "backslashreplace").decode()
    return CONTROL.sub("?", shown).replace("~", "~0").replace("/", "~1")[:80]


def wrong_text(value: object, *, longest: int) -> str:
    """Why a value is no usable text, or "". Lone surrogates cannot be stored or sent."""
    if not isinstance(value, str):
        return "Must be text."
    if len(value) > longest:
        return f"At most {longest} characters."
    if CONTROL.search(value):
        return "Must not contain control characters."
    if SURROGATE.search(value):
        return "Must be valid Unicode."
    return ""


class Reader:
    """One JSON object at the pointer `at`; readers of its parts share the list of `problems`.

    Every reading method answers a usable value even where it recorded a problem, so that all problems are
    found in one pass; the values count only while `problems` is empty. null is the same as left out.
    """

    def __init__(
        self, document: object, *, at: str, problems: list[FieldProblem], passes_over: bool = False
    ) -> None:
        self.at = at
        self.passes_over = passes_over
        self.problems = problems
        self.fields: Mapping[str, Any] = {}
        if isinstance(document, Mapping):
            self.fields = document
        else:
            self.problems.append(FieldProblem(at, "invalid_value", "Must be an object."))

    def refuse(self, key: str, detail: str, *, code: str = "invalid_value") -> None:
        """Record that the field is wrong."""
        self.problems.append(FieldProblem(f"{self.at}/{escaped(key)}", code, detail))

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.fields.get(key) is not None

    def only(self, known: Collection[str]) -> None:
        """Refuse every field that is not among the known ones, naming the nearest; or pass over them."""
        if self.passes_over:
            return
        strange = [key for key in self.fields if key not in known]
        for key in strange[:MOST_PROBLEMS]:
            # In YAML a key may be a number or nothing.
            near = nearest(str(key), known)
            self.refuse(str(key), f"Did you mean {near}?" if near else "No such field.", code="unknown_field")
        if len(strange) > MOST_PROBLEMS:
            words = f"{len(strange) - MOST_PROBLEMS} more fields are unknown."
            self.problems.append(FieldProblem(self.at, "unknown_field", words))

    def text(self, key: str, *, default: str | None = None, longest: int = 255) -> str:
        """A text; without a default it is required."""
        if not self.has(key):
            if default is None:
                self.refuse(key, f"{key} is required.", code="required")
            return default or ""
        value = self.fields[key]
        if problem := wrong_text(value, longest=longest) or ("" if value else "Must not be empty."):
            self.refuse(key, problem)
            return ""
        return str(value)

    def optional_text(self, key: str, *, longest: int = 255) -> str:
        """A text; left out or empty it is empty."""
        return "" if self.fields.get(key) in (None, "") else self.text(key, longest=longest)

    def whole(self, key: str, *, default: int, within: Range) -> int:
        """A whole number within bounds; true, 1.0 and "1" are none."""
        number = self.optional_whole(key, within=within)
        return default if number is None else number

    def optional_whole(self, key: str, *, within: Range) -> int | None:
        """As `whole`; None when left out."""
        if not self.has(key):
            return None
        value = self.fields[key]
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, "Must be a whole number.")
            return None
        if not within.holds(value):
            self.refuse(key, f"Must be from {within.least} to {within.most}.", code="out_of_range")
            return None
        return value

    def flag(self, key: str) -> bool:
        """True or false; left out means false."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, "Must be true or false.")
        return value is True

    def texts(self, key: str, *, most: int, longest: int) -> tuple[str, ...]:
        """A list of texts."""
        found = []
        for index, value in enumerate(self.items(key, most=most)):
            if problem := wrong_text(value, longest=longest):
                self.problems.append(
                    FieldProblem(f"{self.at}/{escaped(key)}/{index}", "invalid_value", problem)
                )
            else:
                found.append(str(value))
        return tuple(found)

    def items(self, key: str, *, most: int) -> list[Any]:
        """A list; empty when left out."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(key, "Must be a list.")
            return []
        if len(value) > most:
            self.refuse(key, f"At most {most} entries.", code="out_of_range")
            return []
        return value

    def part(self, key: str) -> "Reader":
        """The object in this field; an empty one when left out."""
        document = self.fields.get(key)
        return self._inner({} if document is None else document, escaped(key))

    def part_at(self, key: str, index: int, document: object) -> "Reader":
        """The object at a place of a list in this field."""
        return self._inner(document, f"{escaped(key)}/{index}")

    def _inner(self, document: object, step: str) -> "Reader":
        at = f"{self.at}/{step}"
        return Reader(document, at=at, problems=self.problems, passes_over=self.passes_over)
