"""Packed rows are PostgreSQL's binary COPY, field by field."""

import struct
from array import array
from collections.abc import Iterator, Sequence

import pytest

from apps.metering.telemetry.rules.binary_copy import Packer, is_whole
from apps.metering.telemetry.rules.sources.reading import Block, DeviceLabels

TYPES = ("int2", "int4", "int8", "int4")
EPOCH = 1000
GPU = DeviceLabels(uuid="GPU-1")


def fields(packed: bytes | bytearray) -> Iterator[list[int | None]]:
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


def packed(*blocks: Block) -> bytearray | None:
    return Packer(TYPES, EPOCH).rows(30, [(77 + n, block) for n, block in enumerate(blocks)])


@pytest.mark.parametrize(
    "columns",
    [
        ([1, -2], [3, 4], [2**60, -(2**60)], [5, 6]),
        (None, [3, 4], None, [5, 6]),
        ([1, 2], None, None, None),
        (None, None, None, None),
        (None, None, [7, 8], None),
        (array("H", [1, 32767]), array("I", [3, 2**31 - 1]), array("Q", [7, 2**63 - 1]), None),
        (array("h", [1, -32768]), array("Q", [3, 4]), [7, 8], array("H", [5, 6])),
    ],
)
def test_every_value_is_where_it_belongs(columns: tuple[Sequence[int | None] | None, ...]) -> None:
    found = packed(Block(GPU, [1500, 2500], columns))
    assert found is not None
    assert list(fields(found)) == [
        [77, at, 30, *(None if each is None else each[index] for each in columns)]
        for index, at in enumerate((500, 1500))
    ]


def test_devices_are_packed_together_whatever_their_times_and_the_kind_of_their_columns() -> None:
    first = Block(GPU, [1500, 2500], (array("H", [1, 2]), None, [5, 6], None))
    second = Block(GPU, [1600], ([-3], None, array("Q", [7]), None))
    found = packed(first, second)
    assert found is not None
    assert list(fields(found)) == [
        [77, 500, 30, 1, None, 5, None],
        [77, 1500, 30, 2, None, 6, None],
        [78, 600, 30, -3, None, 7, None],
    ]


@pytest.mark.parametrize("column", [[1, None], [1, 40_000], array("H", [1, 40_000]), array("Q", [1, 40_000])])
def test_a_gap_in_a_column_or_too_large_a_value_is_not_packed(column: Sequence[int | None]) -> None:
    assert packed(Block(GPU, [1, 2], (column, None, None, None))) is None


def test_a_block_is_whole_when_no_column_has_room_for_an_unknown() -> None:
    assert is_whole(Block(GPU, [1], (array("H", [1]), None)))
    assert not is_whole(Block(GPU, [1], (array("H", [1]), [2])))


def test_columns_of_another_length_than_the_times_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="as long"):
        packed(Block(GPU, [1, 2], ([1], None, None, None)))
