"""What words share: enums whose members people read (the value for machines, the label for people), ordinals,
and which word a mistyped one may have meant. Pure.
"""

from collections.abc import Collection
from difflib import get_close_matches
from enum import StrEnum
from typing import Self


class Word(StrEnum):
    """A member is written `NAME = "value", "Label"`; it equals its value, and pages show its label."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        """Keep the label beside the value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label or value
        return member

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """For a model field: (value, label) in the order of definition."""
        return [(member.value, member.label) for member in cls]


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ... 11th, 12th, 13th ... 21st."""
    last = 0 if 10 < number % 100 < 14 else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def nearest(name: str, known: Collection[str]) -> str:
    """The known word that is most like a mistyped one; "" where none is. What is far longer is like none."""
    if len(name) > 2 * max(map(len, known), default=0):
        return ""
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")
