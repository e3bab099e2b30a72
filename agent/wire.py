"""Protocol Buffers, as much as reading a known message needs: tags, varints, length-prefixed parts. Pure."""

from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
# 64 bits in groups of seven.
_LONGEST_VARINT = 10


class Malformed(ValueError):
    """The bytes are no message."""


def parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-prefixed fields of a message as (number, content), in their order; numbers are passed over.

    Unknown fields are the caller's to skip, so a newer sender is understood. Raises Malformed when cut short.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            continue
        size = _FIXED.get(kind)
        if kind == _LENGTH:
            size, at = _varint(message, at)
        if size is None or number == 0 or at + size > len(message):
            raise Malformed(f"a field of kind {kind} at byte {at} of {len(message)} cannot be read")
        if kind == _LENGTH:
            yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    raise Malformed(f"a number at byte {at} of {len(message)} does not end")
