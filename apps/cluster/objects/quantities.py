"""Kubernetes quantities, exactly: text to integers and back. Pure; binary floats never enter.

Grammar and suffixes: k8s.io/apimachinery `resource.Quantity`. Hostile text is a ValueError in words.
"""

import math
import re
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?[0-9]{1,2})")
_LONGEST = 40
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_CEILING = 2**63 - 1
_KEPT = 4096
"""Quantities whose value is remembered: a fleet says the same few again and again."""


def parse_quantity(text: str | float) -> Fraction:
    """The exact value of `"500m"`, `"16Gi"`, `"1e3"` or a JSON number; refuses what the API server would
    refuse.
    """
    shown = repr(text) if isinstance(text, int | float) else text
    match = _FORM.fullmatch(shown) if len(shown) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{shown[:_LONGEST]!r} is not a quantity: write for example 500m, 2, 16Gi")
    sign, digits, suffix = match.groups()
    value = Fraction(digits) * _scale(suffix)
    if value > _CEILING:
        raise ValueError(f"{shown!r} is larger than any quantity may be")
    return -value if sign == "-" else value


def _scale(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return Fraction(10) ** exponent


@lru_cache(_KEPT)
def cpu_millis(text: str | float) -> int:
    """CPU in thousandths of a core, rounded up as the scheduler does; never negative."""
    return math.ceil(_not_negative(text) * 1000)


@lru_cache(_KEPT)
def memory_bytes(text: str | float) -> int:
    """Memory or storage in bytes, rounded up; never negative."""
    return math.ceil(_not_negative(text))


@lru_cache(_KEPT)
def whole_number(text: str | float) -> int:
    """A count of devices; a fraction of a device is refused."""
    value = _not_negative(text)
    if value.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)


def _not_negative(text: str | float) -> Fraction:
    value = parse_quantity(text)
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return value


def format_bytes(count: int) -> str:
    """Bytes as a Kubernetes quantity: the largest binary suffix that keeps it a whole number (`16Gi`,
    `1536Mi`); what is more than any quantity may be is the most that one may be.
    """
    count = min(count, _CEILING)
    for suffix, power in reversed(_BINARY.items()):
        if count and count % 2**power == 0:
            return f"{count >> power}{suffix}"
    return str(count)


def format_millis(millis: int) -> str:
    """Thousandths of a core as a Kubernetes quantity: `2` or `500m`, at most what one may be."""
    millis = min(millis, _CEILING * 1000)
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def shown_bytes(count: int) -> str:
    """Bytes for people, rounded to a tenth: `9.8 GiB`. Never parse it."""
    for suffix, power in reversed(_BINARY.items()):
        if count >= 2**power:
            tenths = (count * 10 + 2 ** (power - 1)) >> power
            return f"{tenths // 10}.{tenths % 10} {suffix}B".replace(".0 ", " ")
    return f"{count} B"
