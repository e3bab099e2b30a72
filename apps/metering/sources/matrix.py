"""What Prometheus answers to a range selector, taken apart. Pure.

Prometheus writes each sample as `[1435781430.781,"0.5"]`: as JSON a list and a text per sample, which cost
more than all the rest of reading it. Where a body looks as Prometheus writes it, the brackets and quotes are
taken out first, and what is left is read as plain numbers, some series at once, so that they stay in the
processor's cache. Anything else is read as any JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

Body = dict[str, Any]
AT_ONCE = 32
_OPENS = b'{"status":"success","data":{"resultType":"matrix","result":['
_HEAD, _VALUES = b'{"metric":', b',"values":[['
_END, _LAST = b'"]]},', b'"]]}]}}'
_MARKS = b'"[]'
_NO_NUMBERS = (b"u", b"a", b"{")
"""Of null, true, false and of objects: the only other things that JSON has besides texts and lists."""


class Series(NamedTuple):
    """Labels, times (unix seconds) and values of one series: all texts, or all numbers."""

    labels: Mapping[str, str]
    times: list[float]
    told: list[str] | list[float]


class _Device:
    """What the series of a device have in common."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.times: list[float] = []


class Devices:
    """Devices by the JSON of their labels: a device has some twenty series that differ in their name alone,
    and those of a node have the same times. What is alike is the same object.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Device] = {}
        self._times: list[float] = []

    def series(self, head: bytes, name: bytes, flat: list[float]) -> Series:
        """From time, value, time, value ...; raises JSONDecodeError."""
        key = head.replace(name, b"", 1)
        device = self._known.get(key)
        if device is None:
            device = self._known[key] = _Device(orjson.loads(head))
        times = flat[::2]
        if times != device.times:
            device.times = self._times if times == self._times else times
        self._times = device.times
        return Series(device.labels, device.times, flat[1::2])


def quick(raw: bytes, name: str, devices: Devices) -> Iterator[Series] | None:
    """The series of a body as Prometheus writes it; None of any other. What is not JSON after all raises
    JSONDecodeError on the way.
    """
    opens, *pieces = raw.split(_HEAD)
    if opens != _OPENS or not pieces or not pieces[-1].endswith(_LAST):
        return None
    pieces[-1] = pieces[-1].removesuffix(_LAST) + _END
    if not all(piece.endswith(_END) for piece in pieces):
        return None
    named = b'"__name__":"%b",' % name.encode()
    return _in_blocks(pieces, named, devices)


def _in_blocks(pieces: Sequence[bytes], named: bytes, devices: Devices) -> Iterator[Series]:
    for begin in range(0, len(pieces), AT_ONCE):
        block = pieces[begin : begin + AT_ONCE]
        parted = [piece.partition(_VALUES) for piece in block]
        found = _numbers([tail[: -len(_END)] for _, _, tail in parted])
        if found is None:
            yield from slow(orjson.loads(b"[%b%b]" % (_HEAD, _HEAD.join(block)[:-1])))
        else:
            for (head, _, _), flat in zip(parted, found, strict=True):
                yield devices.series(head, named, flat)


def _numbers(tails: list[bytes]) -> list[list[float]] | None:
    """Of each series time, value, time, value ...; None where there is anything but numbers."""
    text = b";".join(tails).translate(None, _MARKS)
    if any(each in text for each in _NO_NUMBERS):
        return None
    try:
        found: list[list[float]] = orjson.loads(b"[[%b]]" % text.replace(b";", b"],["))
    except orjson.JSONDecodeError:
        return None
    return found if len(found) == len(tails) and not any(len(each) % 2 for each in found) else None


def slow(result: Sequence[Body]) -> Iterator[Series]:
    """The series of a result that was read as JSON."""
    for found in result:
        if found["values"]:
            times, texts = zip(*found["values"], strict=True)
            yield Series(found["metric"], list(times), list(texts))
