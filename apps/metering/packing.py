"""Columns as rows of PostgreSQL's binary COPY, packed by one call a row. Pure.

A row is the number of its fields as int16, and each field its length as int32 and its value; the length of an
unknown is -1, with nothing behind it. All integers have their highest byte first.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import repeat, starmap
from struct import Struct, error

from apps.metering.sources.reading import Block

BEGINS = b"PGCOPY\n\xff\r\n\0" + bytes(8)
ENDS = b"\xff\xff"
_KINDS = {"int2": ("h", 2), "int4": ("i", 4), "int8": ("q", 8)}
_UNKNOWN = b"\xff\xff\xff\xff"
_SHORT, _LONG = Struct(">h"), Struct(">q")


class Packer:
    """Packs rows of (device id int8, ts int8, seconds int2, *values) whose values are of these types.

    A ts is written in µs since `epoch`, which is told in µs since 1970.
    """

    def __init__(self, types: Sequence[str], epoch: int) -> None:
        self._types = tuple(types)
        self._epoch = epoch
        self._times: dict[int, tuple[Sequence[int], list[int]]] = {}

    def rows(self, device_id: int, seconds: int, block: Block) -> bytes | None:
        """The rows of a block; None where a column has both values and unknowns, or what does not fit it."""
        if any(each is not None and len(each) != len(block.times) for each in block.columns):
            raise ValueError("The columns of a block are as long as its times.")
        row, between = _shape(self._types, tuple(each is not None for each in block.columns))
        head = _SHORT.pack(len(self._types) + 3) + _length(8) + _LONG.pack(device_id) + _length(8)
        first = _length(2) + _SHORT.pack(seconds) + between[0]
        columns: list[Iterable[object]] = [repeat(head), self._stamps(block.times), repeat(first)]
        known = [each for each in block.columns if each is not None]
        for column, after in zip(known, between[1:], strict=True):
            columns += (column, repeat(after)) if after else (column,)
        try:
            return b"".join(starmap(row.pack, zip(*columns)))  # noqa: B905 - constants have no end
        except error:
            return None

    def _stamps(self, times: Sequence[int]) -> list[int]:
        """Blocks of one node share the list of their times: kept here, so that its id stays its own."""
        found = self._times.get(id(times))
        if found is None:
            found = self._times[id(times)] = times, [ts - self._epoch for ts in times]
        return found[1]


def _length(size: int) -> bytes:
    return size.to_bytes(4, "big")


@cache
def _shape(types: tuple[str, ...], known: tuple[bool, ...]) -> tuple[Struct, list[bytes]]:
    """The format of a row, and the constant bytes before its first known value and after each of them."""
    letters, between = "", [b""]
    for kind, is_known in zip(types, known, strict=True):
        letter, size = _KINDS[kind]
        between[-1] += _length(size) if is_known else _UNKNOWN
        if is_known:
            letters += letter
            between.append(b"")
    head = f">18sq{6 + len(between[0])}s"
    tail = (
        f"{letter}{len(after)}s" if after else letter
        for letter, after in zip(letters, between[1:], strict=True)
    )
    return Struct(head + "".join(tail)), between
