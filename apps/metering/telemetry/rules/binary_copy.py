"""Columns as rows of PostgreSQL's binary COPY, packed by a few calls a column. Pure.

A row is the number of its fields as int16, and each field its length as int32 and its value; the length of an
unknown is -1, with nothing behind it. All integers have their highest byte first. So rows with the same
unknowns are equally long: the first bytes of all values of a column stand that far apart, as do the second.
"""

import sys
from array import array
from collections.abc import Sequence
from functools import cache
from struct import Struct

from apps.metering.telemetry.rules.sources.reading import Block

BEGINS = b"PGCOPY\n\xff\r\n\0" + bytes(8)
ENDS = b"\xff\xff"
_KINDS = {"int2": ("h", 2), "int4": ("i", 4), "int8": ("q", 8)}
_UNKNOWN = b"\xff\xff\xff\xff"
_SHORT, _LONG = Struct(">h"), Struct(">q")
_STAMP = 18
"""Where in a row the value of ts begins: behind the number of fields, the device's id and two lengths."""
Place = tuple[int, str, int]
"""Of a column's values: where they begin in a row, the type code of an array, and how many bytes each has."""


class Packer:
    """Packs rows of (device id int8, ts int8, seconds int2, *values) whose values are of these types.

    A ts is written in µs since `epoch`, which is told in µs since 1970.
    """

    def __init__(self, types: Sequence[str], epoch: int) -> None:
        self._types = tuple(types)
        self._epoch = epoch
        self._times: dict[int, tuple[Sequence[int], bytes]] = {}

    def rows(self, seconds: int, blocks: Sequence[tuple[int, Block]]) -> bytearray | None:
        """The rows of (device id, block) that agree in `known`; None where a known column has unknowns, or
        what does not fit it.
        """
        for _, block in blocks:
            if any(each is not None and len(each) != len(block.times) for each in block.columns):
                raise ValueError("The columns of a block are as long as its times.")
        behind, places = _shape(self._types, known(blocks[0][1]))
        constant = bytes(8) + _length(2) + _SHORT.pack(seconds) + behind
        rows = bytearray().join((self._head(pk) + constant) * len(block.times) for pk, block in blocks)
        width = _STAMP + len(constant)
        _spread(rows, (_STAMP, 8, width), b"".join(self._stamps(block.times) for _, block in blocks))
        columns = zip(*(filter(_is_known, block.columns) for _, block in blocks), strict=True)
        for (at, code, size), parts in zip(places, columns, strict=True):
            values = _joined(parts, code)
            if values is None:
                return None
            _spread(rows, (at, size, width), values)
        return rows

    def _head(self, device_id: int) -> bytes:
        """All before the value of ts."""
        return _SHORT.pack(len(self._types) + 3) + _length(8) + _LONG.pack(device_id) + _length(8)

    def _stamps(self, times: Sequence[int]) -> bytes:
        """Blocks of one node share the list of their times: kept here, so that its id stays its own."""
        found = self._times.get(id(times))
        if found is None:
            stamps = array("q", [ts - self._epoch for ts in times])
            found = self._times[id(times)] = times, _highest_first(stamps)
        return found[1]


def known(block: Block) -> tuple[bool, ...]:
    """Which columns have values: blocks that agree in it can be packed together."""
    return tuple(each is not None for each in block.columns)


def is_whole(block: Block) -> bool:
    """Whether nothing is unknown in any column that has values: an array has no room for it."""
    return all(isinstance(each, array | None) for each in block.columns)


def _is_known(column: object) -> bool:
    return column is not None


def _spread(rows: bytearray, place: tuple[int, int, int], values: bytes) -> None:
    """Write values of `size` bytes each, the first at `at`, each next one `width` further."""
    at, size, width = place
    for byte in range(size):
        rows[at + byte :: width] = values[byte::size]


def _joined(parts: Sequence[Sequence[int | None]], code: str) -> bytes | None:
    """The values of one column, block after block; None where one is unknown or does not fit."""
    kinds = {each.typecode if isinstance(each, array) else "" for each in parts}
    kind = code.upper() if kinds == {code.upper()} else code
    found: array[int] = array(kind)
    try:
        for part in parts:
            found.extend(part if kinds == {kind} else array(kind, part))  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return None
    values = _highest_first(found)
    # What is unsigned must leave the first bit free: it would be read as a sign.
    return values if kind == code or values[:: found.itemsize].isascii() else None


def _highest_first(values: "array[int]") -> bytes:
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def _length(size: int) -> bytes:
    return size.to_bytes(4, "big")


@cache
def _shape(types: tuple[str, ...], known: tuple[bool, ...]) -> tuple[bytes, list[Place]]:
    """All behind a row's seconds, with noughts for its values, and where these are in the row."""
    constant, places = b"", list[Place]()
    begins = _STAMP + 8 + 4 + 2
    for kind, is_known in zip(types, known, strict=True):
        code, size = _KINDS[kind]
        constant += _length(size) if is_known else _UNKNOWN
        if is_known:
            places.append((begins + len(constant), code, size))
            constant += bytes(size)
    return constant, places
