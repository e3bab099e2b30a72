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
_HEAD, _VALUES, _END = b'{"metric":', b',"values":[[', b'"]]}'
_OPENS = b'{"status":"success","data":{"resultType":"matrix","result":[' + _HEAD
_BETWEEN, _LAST = _END + b"," + _HEAD, _END + b"]}}"
_MARKS = b'"[]'
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
        self, heads: Sequence[bytes], name: bytes, flats: Sequence[list[float]]
    ) -> list[Series | Many]:
        """From the labels of each and its time, value, time, value ...; raises JSONDecodeError.

        RULE: many at once where no device of the run has other times than in the field before.
        """
        key = b"\n".join(heads).replace(name, b"")
        run = self._runs.get(key)
        if run is None or any(flat[::2] != times for flat, times in zip(flats, run.times, strict=True)):
            found = [
                self._one(head.replace(name, b"", 1), flat) for head, flat in zip(heads, flats, strict=True)
            ]
            if run is not None:
                return [*found]
            run = self._runs[key] = Run(found)
        return [Many(run, [value for flat in flats for value in flat[1::2]])]

    def _one(self, key: bytes, flat: list[float]) -> Series:
        device = self._known.get(key)
        if device is None:
            device = self._known[key] = _Device(orjson.loads(key))
        times = flat[::2]
        if times != device.times:
            device.times = self._times if times == self._times else times
        self._times = device.times
        return Series(device.labels, device.times, flat[1::2])


def quick(raw: bytes, name: str, devices: Devices) -> Iterator[Series | Many] | None:
    """The series of a body as Prometheus writes it; None of any other. What is not JSON after all raises
    JSONDecodeError on the way.
    """
    if not (raw.startswith(_OPENS) and raw.endswith(_LAST)):
        return None
    pieces = raw[len(_OPENS) : -len(_LAST)].split(_BETWEEN)
    # No label can hold the bytes of either: its quotes are escaped.
    if raw.count(_HEAD) != len(pieces):
        return None
    named = b'"__name__":"%b",' % name.encode()
    return _in_blocks(pieces, named, devices)


def _in_blocks(pieces: Sequence[bytes], named: bytes, devices: Devices) -> Iterator[Series | Many]:
    for begin in range(0, len(pieces), AT_ONCE):
        block = pieces[begin : begin + AT_ONCE]
        parted = [piece.partition(_VALUES) for piece in block]
        found = _numbers([tail for _, _, tail in parted])
        if found is None:
            yield from slow(orjson.loads(b"[%b%b%b]" % (_HEAD, _BETWEEN.join(block), _END)))
        else:
            yield from devices.series([head for head, _, _ in parted], named, found)


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
