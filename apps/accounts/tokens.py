"""The form of an API token: `alt_`, 43 characters for 32 random bytes, 6 for their checksum. Pure.

The checksum lets a leak scanner, and us, tell a token from a typing mistake without asking the database.
"""

import hashlib
import re
import zlib
from dataclasses import dataclass

MARK = "alt_"
RANDOM_BYTES = 32
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY, _CHECK, _SHOWN = 43, 6, 12
_FORM = re.compile(rf"{MARK}[0-9A-Za-z]{{{_BODY + _CHECK}}}")


@dataclass(frozen=True)
class Generated:
    """A new token: the text is shown once; the prefix and the digest are kept."""

    text: str
    prefix: str
    digest: str


def generate(random: bytes) -> Generated:
    """The token made of 32 random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a token is made of {RANDOM_BYTES} random bytes, not {len(random)}")
    body = _base62(int.from_bytes(random, "big"), _BODY)
    text = MARK + body + _checksum(body)
    return Generated(text, text[:_SHOWN], digest(text))


def looks_valid(text: str) -> bool:
    """Whether form and checksum are right; says nothing about whether the token exists."""
    return bool(_FORM.fullmatch(text)) and _checksum(text[len(MARK) : -_CHECK]) == text[-_CHECK:]


def digest(text: str) -> str:
    """SHA-256 in hex: 256 random bits need no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK)


def _base62(number: int, width: int) -> str:
    letters = []
    for _ in range(width):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(reversed(letters))
