"""resource.Quantity: reading, comparing and the canonical text the server stores.

No arithmetic beyond exact numbers.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_SHAPE = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+|)$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BY_POWER = {power: suffix for suffix, power in _DECIMAL.items()}
_BY_BINARY = {power: suffix for suffix, power in _BINARY.items()}
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class BadQuantity(ValueError):
    """Text that is not a quantity."""


def _split(text: str) -> tuple[Decimal, str]:
    match = _SHAPE.match(text)
    if match is None:
        raise BadQuantity(MALFORMED)
    return Decimal(match.group(1)), match.group(2)


@lru_cache(maxsize=4096)
def parse(text: str) -> Decimal:
    """The exact value in base units (cores, bytes, pieces)."""
    number, suffix = _split(text)
    if suffix in _BINARY:
        return number * (Decimal(1024) ** _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * (Decimal(10) ** power)


def _binary_text(value: Decimal) -> str:
    whole, power = int(value), 0
    while whole and whole % 1024 == 0 and power < max(_BY_BINARY):
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BY_BINARY.get(power, '')}"


def _decimal_text(value: Decimal, *, exponent: bool) -> str:
    scaled = (
        int((value * 1000).quantize(Decimal(1), rounding=ROUND_UP))
        if value % Decimal("0.001")
        else int(value * 1000)
    )
    power = -3
    while scaled and scaled % 1000 == 0 and power < 18:
        scaled, power = scaled // 1000, power + 3
    if scaled == 0:
        return "0"
    return f"{scaled}e{power}" if exponent and power else f"{scaled}{_BY_POWER[power]}"


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The text the server stores: no fraction, the largest suffix that loses nothing, the kind of suffix
    kept.
    """
    _, suffix = _split(text)
    value = parse(text)
    if suffix in _BINARY and value == value.to_integral_value() and abs(value) >= 1024:
        return _binary_text(value)
    return _decimal_text(value, exponent=suffix[:1] in ("e", "E") and len(suffix) > 1)
