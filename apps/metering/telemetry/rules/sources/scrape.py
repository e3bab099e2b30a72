"""One exporter's text as readings. Pure.

The shape of a text (which position is which field of which device) is learned once and used until a head
changes; then only numbers are read. That is most of what ingest costs.
"""

from dataclasses import dataclass, field
from operator import itemgetter

from apps.metering.telemetry.rules.sources import exposition, fields
from apps.metering.telemetry.rules.sources.exposition import Malformed, Page, Series
from apps.metering.telemetry.rules.sources.limits import MOST_DEVICES_PER_NODE
from apps.metering.telemetry.rules.sources.naming import LabelNames, Part, device_of, part_of, pod_of
from apps.metering.telemetry.rules.sources.reading import (
    KEEP_UUID,
    ONE_TELLER,
    OTHER_DRIVER,
    DeviceLabels,
    Reading,
    Trouble,
)
from apps.metering.telemetry.rules.sources.table import Table

Number = float | None
Plan = tuple[tuple[int, fields.Field], ...]
_FORMAT = (
    "{} lines of the exporter on {} are not in Prometheus' text format and were kept aside; everything else"
    " was read. Restart dcgm-exporter there; if it stays, look at what answers on its port."
)
_TOO_MUCH = " Look at what answers on its port, and restart it: an exporter of 16 GPUs sends about 1 MiB."


@dataclass(frozen=True)
class Shape:
    """What a text looked like: its heads, a plan per device and pod, and what is wrong with it."""

    heads: list[str]
    devices: tuple[tuple[DeviceLabels, tuple[Plan, ...]], ...]
    malformed: frozenset[int]
    repeated: int
    foreign: int
    is_timed: bool


@dataclass
class Scrape:
    """What one text gave."""

    readings: list[Reading]
    troubles: list[Trouble] = field(default_factory=list)


class Exporter:
    """One exporter, with the shape of its last text."""

    def __init__(self, node: str, names: LabelNames) -> None:
        self._node = node
        self._names = names
        self._shape: Shape | None = None

    def read(self, text: str, ts: int) -> Scrape:
        """The readings of a text collected at `ts` (µs); lines with a time of their own keep it.

        Never raises: what cannot be read is told in `troubles`.
        """
        try:
            page = exposition.page(text)
            shape = self._shape
            if shape is None or shape.heads != page.heads:
                shape = self._shape = self._learn(page.heads)
        except exposition.TooMuch as refused:
            words = f"The exporter on {self._node} sends {refused}. Nothing of it was believed.{_TOO_MUCH}"
            return Scrape([], [Trouble("too-much", self._node, words, text[:400])])
        if shape.is_timed:
            return self._read_timed(page)
        numbers = exposition.numbers(page.values)
        readings, odd = _read(shape, numbers, ts)
        return Scrape(readings, self._troubles(page, shape, numbers, odd))

    def _learn(self, heads: list[str]) -> Shape:
        learner = _Learner(self._names)
        for index, head in enumerate(heads):
            learner.take(index, head)
        if len(learner.plans) > MOST_DEVICES_PER_NODE:
            raise exposition.TooMuch(
                f"{len(learner.plans)} devices; a node has at most {MOST_DEVICES_PER_NODE}"
            )
        return learner.shape(heads)

    def _read_timed(self, page: Page) -> Scrape:
        """The general way, for texts whose lines tell their own time."""
        table, malformed = Table(self._names), page.malformed
        for head, value in zip(page.heads, page.values, strict=True):
            line = exposition.line_of(f"{head} {value}")
            if line is None:
                malformed.note(f"{head} {value}")
                continue
            each, number = line
            if each.timestamp_ms is not None:
                table.add(each.name, each.labels, [each.timestamp_ms / 1000], [str(number)])
        return Scrape(table.readings(), self._words(malformed, table.repeated, table.foreign, table.odd))

    def _troubles(self, page: Page, shape: Shape, numbers: list[Number], odd: set[int]) -> list[Trouble]:
        """Cheap where nothing is wrong, which is nearly always."""
        malformed = page.malformed
        if shape.malformed or None in numbers:
            for index, number in enumerate(numbers):
                if number is None or index in shape.malformed:
                    malformed.note(f"{page.heads[index]} {page.values[index]}".strip())
        wrong: dict[str, int] = {}
        for index in odd:
            number = numbers[index]
            if number is not None and not fields.is_blank(number):
                name = page.heads[index].partition("{")[0]
                wrong[name] = wrong.get(name, 0) + 1
        return self._words(malformed, shape.repeated, shape.foreign, wrong)

    def _words(self, malformed: Malformed, repeated: int, foreign: int, odd: dict[str, int]) -> list[Trouble]:
        node, found = self._node, []
        if malformed.count:
            found.append(Trouble("malformed", node, _FORMAT.format(malformed.count, node), malformed.first))
        if repeated:
            words = f"{repeated} series of the exporter on {node} come twice; the first of each was taken."
            found.append(Trouble("repeated-series", node, words + ONE_TELLER))
        if foreign:
            words = f"{foreign} series from {node} name no GPU as NVIDIA does (label UUID) and were refused."
            found.append(Trouble("no-device", node, words + KEEP_UUID))
        if odd:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(odd.items()))
            words = f"Values from {node} that the hardware cannot have were taken as unknown: {names}."
            found.append(Trouble("out-of-range", node, words + OTHER_DRIVER))
        return found


class _Learner:
    """Takes heads one by one and finds what they speak of."""

    def __init__(self, names: LabelNames) -> None:
        self.plans: dict[tuple[str, int, int, str], dict[Part, dict[int, tuple[int, fields.Field]]]] = {}
        self._names = names
        self._labels: dict[Part, Series] = {}
        self._taken: set[tuple[Part, str, str]] = set()
        self._malformed: set[int] = set()
        self._repeated, self._foreign, self._is_timed = 0, 0, False

    def take(self, index: int, head: str) -> None:
        series = exposition.series(head)
        if series is None:
            if exposition.line_of(head) is not None:
                self._is_timed = True
            else:
                self._malformed.add(index)
            return
        wanted = fields.FIELDS.get(series.name)
        if wanted is not None:
            self._place(index, series, wanted)

    def _place(self, index: int, series: Series, wanted: fields.Field) -> None:
        part = part_of(series.labels, self._names)
        if part is None:
            self._foreign += 1
            return
        if wanted.column == fields.SMI and part[1] >= 0:
            return
        device = (*part[:3], series.labels.get("GPU_I_PROFILE", ""))
        plan = self.plans.setdefault(device, {}).setdefault(part, {})
        self._labels.setdefault(part, series)
        told = part, series.labels.get(self._names.container, ""), series.name
        if told in self._taken:
            self._repeated += 1
        self._taken.add(told)
        # The second of two names for one thing says nothing new.
        plan.setdefault(wanted.column, (index, wanted))

    def shape(self, heads: list[str]) -> Shape:
        """Everything taken."""
        devices = []
        for parts in self.plans.values():
            first = next(iter(parts))
            pods = tuple(pod for part in parts if (pod := pod_of(part)))
            device = device_of(first, self._labels[first].labels, pods)
            plans = tuple(tuple(sorted(plan.values(), key=itemgetter(0))) for plan in parts.values())
            devices.append((device, plans))
        return Shape(
            heads, tuple(devices), frozenset(self._malformed), self._repeated, self._foreign, self._is_timed
        )


def _read(shape: Shape, numbers: list[Number], ts: int) -> tuple[list[Reading], set[int]]:
    readings, odd = [], set[int]()
    for device, plans in shape.devices:
        rows = [_row(plan, numbers, odd) for plan in plans]
        row = rows[0] if len(rows) == 1 else fields.shared(rows)
        readings.append(Reading(device, ts, fields.values(row)))
    return readings, odd


def _row(plan: Plan, numbers: list[Number], odd: set[int]) -> fields.Raw:
    """`fields.put` for a whole row, in place: this loop is the hottest of the product."""
    row: fields.Raw = [None] * fields.WIDTH
    for index, (column, scale, low, high, most) in plan:
        value = numbers[index]
        if value is None:
            continue
        scaled = value * scale
        if low <= scaled <= high:
            row[column] = whole if (whole := round(scaled)) < most else most
        else:
            odd.add(index)
    return row
