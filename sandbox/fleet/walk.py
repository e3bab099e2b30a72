"""Bounded seeded walks with random access: the value at any time without the path before it.

A walk is value noise: random values on a lattice of times, smoothly joined, two octaves. The same key and
time give the same value in every process.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import floor

_MASK = (1 << 64) - 1


def key_of(*parts: object) -> int:
    """A 64-bit key for a walk or draw."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=65_536)
def unit(key: int, index: int) -> float:
    """A uniform value in [0, 1) for a key and index (splitmix64)."""
    z = (key + (index & _MASK) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / float(1 << 53)


def walk(key: int, t: float, period: float) -> float:
    """A smooth walk in [-1, 1]; `period` is the seconds over which it turns."""
    # Both octaves are written out: a week of a fleet takes a million steps.
    place = t / period
    left = floor(place)
    part = place - left
    low = unit(key, left)
    slow = 2.0 * (low + (unit(key, left + 1) - low) * (part * part * (3.0 - 2.0 * part))) - 1.0
    place = t / (period / 7.3)
    left = floor(place)
    part = place - left
    low = unit(key ^ 0x5DEECE66D, left)
    fast = 2.0 * (low + (unit(key ^ 0x5DEECE66D, left + 1) - low) * (part * part * (3.0 - 2.0 * part))) - 1.0
    return 0.7 * slow + 0.3 * fast


def between(value: float, low: float, high: float) -> float:
    """A unit value stretched to [low, high]."""
    return low + value * (high - low)


def clamp(value: float, low: float = 0.0, high: float = 1.0) -> float:
    """`value` kept within [low, high]."""
    return min(high, max(low, value))
