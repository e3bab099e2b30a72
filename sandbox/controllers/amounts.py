"""Kubernetes quantities in Kueue's whole numbers and back: CPU counts in milli, all else in units.

Decides nothing.
"""

from __future__ import annotations

import math

from sandbox.api.meta.quantity import canonical, parse

_BINARY_RESOURCES = ("memory", "ephemeral-storage")


def amount(resource: str, text: str | int) -> int:
    """A request or quota as Kueue counts it: CPU in milli-cores, everything else in whole units, rounded
    up.
    """
    value = parse(str(text))
    return math.ceil(value * 1000) if resource == "cpu" else math.ceil(value)


def render(resource: str, value: int) -> str:
    """The quantity text Kueue writes for a counted amount: bytes with binary suffixes, the rest with
    decimal ones.
    """
    if resource == "cpu":
        return canonical(f"{value}m")
    binary = resource in _BINARY_RESOURCES or resource.startswith("hugepages-")
    if binary and value and value % 1024 == 0:
        return canonical(f"{value // 1024}Ki")
    return canonical(str(value))
