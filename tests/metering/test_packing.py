"""Packed rows are PostgreSQL's binary COPY, field by field."""

import struct
from collections.abc import Iterator

import pytest

from apps.metering.packing import Packer
from apps.metering.sources.reading import Block, DeviceLabels

TYPES = ("int2", "int4", "int8", "int4")
EPOCH = 1000
GPU = DeviceLabels(uuid="GPU-1")


def fields(packed: bytes) -> Iterator[list[int | None]]:
    at = 0
    while at < len(packed):
        (count,) = struct.unpack_from(">h", packed, at)
        row: list[int | None] = []
        at += 2
        for _ in range(count):
            (size,) = struct.unpack_from(">i", packed, at)
            at += 4
            row.append(None if size < 0 else int.from_bytes(packed[at : at + size], "big", signed=True))
            at += max(0, size)
        yield row


@pytest.mark.parametrize(
    "columns",
    [
        ([1, -2], [3, 4], [2**60, -(2**60)], [5, 6]),
        (None, [3, 4], None, [5, 6]),
        ([1, 2], None, None, None),
        (None, None, None, None),
        (None, None, [7, 8], None),
    ],
)
def test_every_value_is_where_it_belongs(columns: tuple[list[int | None] | None, ...]) -> None:
    packed = Packer(TYPES, EPOCH).rows(77, 30, Block(GPU, [1500, 2500], columns))
    assert packed is not None
    assert list(fields(packed)) == [
        [77, at, 30, *(None if each is None else each[index] for each in columns)]
        for index, at in enumerate((500, 1500))
    ]


def test_a_gap_in_a_column_or_too_large_a_value_is_not_packed() -> None:
    packer = Packer(TYPES, EPOCH)
    assert packer.rows(1, 30, Block(GPU, [1, 2], ([1, None], None, None, None))) is None
    assert packer.rows(1, 30, Block(GPU, [1, 2], ([1, 40_000], None, None, None))) is None


def test_columns_of_another_length_than_the_times_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="as long"):
        Packer(TYPES, EPOCH).rows(1, 30, Block(GPU, [1, 2], ([1], None, None, None)))
