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
_SERIES = b'"metric":'
_HEAD, _VALUES, _END = b"{" + _SERIES, b',"values":[[', b'"]]}'
_OPENS = b'{"status":"success","data":{"resultType":"matrix","result":[' + _HEAD
_BETWEEN, _LAST = _END + b"," + _HEAD, _END + b"]}}"
_MARKS = b'"[]'
_OPEN, _COMMA = b"[", b","
_NO_NUMBERS = (b"u", b"a", b"{")
"""Of null, true, false and of objects: the only other things that JSON has besides texts and lists."""


class Series(NamedTuple):
    """Labels, times (unix seconds) and values of one series: all texts, or all numbers."""

    labels: Mapping[str, str]
    times: list[float]
    told: list[str] | list[float]


class Run:
    """Series of devices that follow one another in the answer for one field, and nearly always for all: the
    labels and times of each.
    """

    def __init__(self, series: Sequence[Series]) -> None:
        self.labels = [each.labels for each in series]
        self.times = [each.times for each in series]
        self._counts = [len(times) for times in self.times]
        self._every = [time for times in self.times for time in times]

    def values(self, tails: Sequence[bytes]) -> list[float] | None:
        """Of series with the very times of this run, all values, read at once; None of any others."""
        if list(map(_length, tails)) != self._counts:
            return None
        found = _plain(_COMMA.join(tails))
        if found is None or len(found) != 2 * len(self._every) or found[::2] != self._every:
            return None
        return found[1::2]


class Many(NamedTuple):
    """One field's series of a run: the values of all, one series after the other."""

    run: Run
    told: list[float]

    def series(self) -> Iterator[Series]:
        """The same one by one."""
        at = 0
        for labels, times in zip(self.run.labels, self.run.times, strict=True):
            yield Series(labels, times, self.told[at : at + len(times)])
            at += len(times)


class _Device:
    """What the series of a device have in common."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.times: list[float] = []


class Devices:
    """Devices by the JSON of their labels: a device has some twenty series that differ in their name alone,
    and those of a node have the same times. What is alike is the same object, runs of devices, too.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Device] = {}
        self._runs: dict[bytes, Run] = {}
        self._times: list[float] = []

    def series(
        self, heads: Sequence[bytes], name: bytes, tails: Sequence[bytes]
    ) -> list[Series | Many] | None:
        """From the labels of each and the text of its times and values; None where there is anything but
        numbers; raises JSONDecodeError.

        RULE: many at once where no device of the run has other times than in the field before.
        """
        key = b"\n".join(heads).replace(name, b"")
        run = self._runs.get(key)
        values = None if run is None else run.values(tails)
        if run is not None and values is not None:
            return [Many(run, values)]
        flats = _numbers(tails)
        if flats is None:
            return None
        found = [self._one(head.replace(name, b"", 1), flat) for head, flat in zip(heads, flats, strict=True)]
        if run is None:
            self._runs[key] = Run(found)
        return [*found]

    def _one(self, key: bytes, flat: list[float]) -> Series:
        device = self._known.get(key)
        if device is None:
            device = self._known[key] = _Device(orjson.loads(key))
        times = flat[::2]
        if times != device.times:
            device.times = self._times if times == self._times else times
        self._times = device.times
        return Series(device.labels, device.times, flat[1::2])


def count(raw: bytes) -> int:
    """How many series a body has; one or more too many where a label has a name of Prometheus' own."""
    return raw.count(_SERIES)


def quick(raw: bytes, count: int, name: str, devices: Devices) -> Iterator[Series | Many] | None:
    """The series of a body of so many as Prometheus writes it; None of any other. What is not JSON after all
    raises JSONDecodeError on the way.
    """
    if not (raw.startswith(_OPENS) and raw.endswith(_LAST)):
        return None
    pieces = raw[len(_OPENS) : -len(_LAST)].split(_BETWEEN)
    # No label can hold the bytes of either: its quotes are escaped.
    if count != len(pieces):
        return None
    named = b'"__name__":"%b",' % name.encode()
    return _in_blocks(pieces, named, devices)


def _in_blocks(pieces: Sequence[bytes], named: bytes, devices: Devices) -> Iterator[Series | Many]:
    for begin in range(0, len(pieces), AT_ONCE):
        block = pieces[begin : begin + AT_ONCE]
        parted = [piece.partition(_VALUES) for piece in block]
        found = devices.series([head for head, _, _ in parted], named, [tail for _, _, tail in parted])
        if found is None:
            yield from slow(orjson.loads(b"[%b%b%b]" % (_HEAD, _BETWEEN.join(block), _END)))
        else:
            yield from found


def _numbers(tails: Sequence[bytes]) -> list[list[float]] | None:
    """Of each series time, value, time, value ...; None where there is anything but numbers."""
    found = []
    for tail in tails:
        flat = _plain(tail)
        if flat is None or len(flat) != 2 * _length(tail):
            return None
        found.append(flat)
    return found


def _length(tail: bytes) -> int:
    """Of how many pairs of time and value a series is."""
    return tail.count(_OPEN) + 1


def _plain(text: bytes) -> list[float] | None:
    """The numbers of a text, without quotes and brackets; None where there is anything else."""
    bare = text.translate(None, _MARKS)
    if any(each in bare for each in _NO_NUMBERS):
        return None
    try:
        found: list[float] = orjson.loads(b"[%b]" % bare)
    except orjson.JSONDecodeError:
        return None
    return found


def slow(result: Sequence[Body]) -> Iterator[Series]:
    """The series of a result that was read as JSON."""
    for found in result:
        if found["values"]:
            times, texts = zip(*found["values"], strict=True)
            yield Series(found["metric"], list(times), list(texts))
