"""Prometheus as a source: raw samples with their own times, in chunks, of the configured exporters only.

A range selector in an instant query answers what was scraped. `query_range` would answer what was so at round
times, and repeat a silent exporter's last word for five minutes: telemetry that never was.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from apps.metering.telemetry.rules.sources import matrix
from apps.metering.telemetry.rules.sources.fields import FIELDS
from apps.metering.telemetry.rules.sources.garbage import uncollected
from apps.metering.telemetry.rules.sources.limits import MOST_DEVICES_PER_NODE, MOST_SERIES_AT_ONCE
from apps.metering.telemetry.rules.sources.matrix import Many, Run, Series
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import (
    KEEP_UUID,
    ONE_TELLER,
    OTHER_DRIVER,
    Batch,
    SourceSilent,
    Trouble,
)
from apps.metering.telemetry.rules.sources.table import Table
from apps.metering.telemetry.rules.sources.web import Web, shortened, wants_less

CHUNK = timedelta(minutes=10)
"""Of the first question; then as much as gives about `MOST_AT_ONCE` readings."""
MOST_AT_ONCE = 100_000
_SHORTEST, _LONGEST = timedelta(minutes=5), timedelta(hours=1)
_LEAST = timedelta(seconds=15)
GROWTH = 1.25
SETTLE = timedelta(seconds=15)
"""Younger than this, a scrape may still be under way."""
_ASKED = "DCGM_FI_PROF_SM_ACTIVE|DCGM_FI_PROF_DRAM_ACTIVE|DCGM_FI_DEV_FB_USED"
EXPORTED = LabelNames(pod="exported_pod", namespace="exported_namespace")


@dataclass(frozen=True)
class Believed:
    """Whose series are taken: a job, and the exporters' namespace (empty: any); how pods are named there."""

    job: str
    namespace: str = ""
    names: LabelNames = EXPORTED

    @property
    def selector(self) -> str:
        """As PromQL matchers."""
        wanted = {"job": self.job, "namespace": self.namespace}
        return ",".join(f"{name}={_quoted(value)}" for name, value in wanted.items() if value)


class Prometheus:
    """A `Source` over Prometheus' HTTP API, version 1."""

    def __init__(self, url: str, web: Web, believed: Believed, step: timedelta) -> None:
        self._query_url = f"{url.rstrip('/')}/api/v1/query"
        self._web = web
        self._believed = believed
        self._step = step
        self._most = _LONGEST

    def read(self, since: datetime, until: datetime) -> Iterator[Batch]:
        """See `Source`. What is younger than `SETTLE` is left for the next time.

        RULE: what is refused as too much at once is asked for again as half of the time, down to `_LEAST`;
        after each answer to so much it may be a little more again.
        """
        until = _whole(until - SETTLE)
        since = _whole(since)
        troubles = self._strangers(until) if since < until else []
        width = CHUNK
        while since < until:
            ends = min(until, _whole(since + min(width, self._most)))
            try:
                batch = self._chunk(since, ends)
            except SourceSilent as refused:
                if not refused.is_too_much or refused.retry_after:
                    raise
                if ends - since <= _LEAST:
                    raise SourceSilent(f"{refused}{_STILL}") from refused
                self._most = max((ends - since) / 2, _LEAST)
                continue
            if ends - since >= self._most:
                self._most = min(self._most * GROWTH, _LONGEST)
            batch.troubles += troubles
            troubles = []
            width = _width(ends - since, batch.count)
            yield batch
            since = ends

    def _chunk(self, since: datetime, until: datetime) -> Batch:
        """RULE: field by field, because all series of a large fleet at once would not fit in memory."""
        table, asked = Table(self._believed.names), _Asked(since.timestamp(), until.timestamp())
        width = (until - since) // timedelta(milliseconds=1)
        with uncollected():
            for name in FIELDS:
                query = f"{name}{{{self._believed.selector}}}[{width}ms]"
                for found in self._series(query, name, until, asked.devices):
                    asked.take(table, name, found)
            blocks, readings = table.sorted()
        crowd = {n: c for n, c in table.devices_by_node.items() if c > MOST_DEVICES_PER_NODE}
        if crowd:
            readings = [each for each in readings if each.device.node not in crowd]
            blocks = [each for each in blocks if each.device.node not in crowd]
        troubles = _troubles(table, asked.lies)
        troubles += [Trouble("too-much", node, _CROWD.format(node, c)) for node, c in crowd.items()]
        return Batch(readings, until, self._step, troubles=troubles, blocks=blocks)

    def _strangers(self, at: datetime) -> list[Trouble]:
        """DCGM series of other jobs or namespaces: forged, or exporters that nobody configured."""
        query = f'count by (job, namespace) ({{__name__=~"{_ASKED}"}})'
        found = []
        for each in self._read(self._ask(query, at)):
            job, namespace = each["metric"].get("job", ""), each["metric"].get("namespace", "")
            mine = self._believed
            if job != mine.job or (mine.namespace and namespace != mine.namespace):
                found.append(Trouble("foreign-series", "", _STRANGER.format(job, namespace)))
        return found

    def _series(
        self, query: str, name: str, at: datetime, devices: matrix.Devices
    ) -> Iterator[Series | Many]:
        raw = self._ask(query, at)
        count = matrix.count(raw)
        if count > MOST_SERIES_AT_ONCE:
            raise SourceSilent(_FLOOD.format(self._query_url, count, name, MOST_SERIES_AT_ONCE))
        found = matrix.quick(raw, count, name, devices)
        try:
            yield from matrix.slow(self._read(raw)) if found is None else found
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise SourceSilent(self._nonsense) from error

    @property
    def _nonsense(self) -> str:
        return f"{self._query_url} does not answer with Prometheus' JSON."

    def _ask(self, query: str, at: datetime) -> bytes:
        asked = {"query": query, "time": f"{at.timestamp():.3f}", "timeout": "15s"}
        return self._web.get(self._query_url, asked)

    def _read(self, raw: bytes) -> list[matrix.Body]:
        try:
            answer = orjson.loads(raw)
            if answer["status"] == "success":
                return list(answer["data"]["result"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise SourceSilent(self._nonsense) from error
        reason = shortened(answer.get("error"))
        words = f"{self._query_url} refuses the query: {reason}"
        raise SourceSilent(words, is_too_much=wants_less(reason))


_FLOOD = (
    "{0} answers {1} series of {2} at once; more than {3} are not read. Look for a label whose value changes"
    " all the time, and drop it in the scrape's metric_relabel_configs."
)
_CROWD = (
    "{1} devices say they are in {0}. A node has at most 1024: nothing of it was believed. Look for a rule"
    " that gives the label Hostname of all exporters the same value."
)
_STILL = (
    f" It refuses even {_LEAST.seconds} s at once: raise what it allows a query to load"
    " (--query.max-samples, --query.timeout)."
)
_STRANGER = (
    'Job "{}" in namespace "{}" sends DCGM series too. They were not read: only the configured exporters are'
    " believed. If these are yours, set ALLOTMENT_TELEMETRY_JOB and ALLOTMENT_TELEMETRY_NAMESPACE."
)
_LIES = (
    "Prometheus answers {} samples that lie outside the time it was asked for; they were refused. Compare its"
    " clock with NTP, and look for rules or a proxy that rewrite timestamps."
)


def _width(asked: timedelta, readings: int) -> timedelta:
    """How much time to ask for next. Longer answers cost less per sample, but must fit into memory."""
    return min(max(asked * MOST_AT_ONCE / max(1, readings), _SHORTEST), _LONGEST)


@dataclass
class _Asked:
    """The time that was asked for, in unix seconds, and how many samples lie about theirs.

    `honest` are the times last looked at: those of the next GPU of a node are the same.
    """

    since: float
    until: float
    lies: int = 0
    honest: list[float] = field(default_factory=list)
    devices: matrix.Devices = field(default_factory=matrix.Devices)
    runs: dict[int, bool] = field(default_factory=dict)
    """By the id of one that `devices` keeps: whether no time of it needs a second look."""

    def take(self, table: Table, name: str, found: Series | Many) -> None:
        """Put what was read into the table."""
        if isinstance(found, Series):
            self._take(table, name, found)
        elif self._is_honest(found.run):
            table.add_many(name, found.run, found.told)
        else:
            for each in found.series():
                self._take(table, name, each)

    def _is_honest(self, run: Run) -> bool:
        if id(run) not in self.runs:
            self.runs[id(run)] = all(
                times and self.since < min(times) and max(times) <= self.until for times in run.times
            )
        return self.runs[id(run)]

    def _take(self, table: Table, name: str, found: Series) -> None:
        """Put one series into the table.

        The first of a range may be at its very beginning (Prometheus 2 includes it): that belongs to the
        chunk before, and is no lie.
        """
        labels, times, told = found
        if times[:1] == [self.since]:
            times, told = times[1:], told[1:]
        if not times:
            return
        if times is not self.honest and not (self.since < min(times) and max(times) <= self.until):
            honest = [index for index, time in enumerate(times) if self.since < time <= self.until]
            self.lies += len(times) - len(honest)
            if not honest:
                return
            times, told = [times[index] for index in honest], [told[index] for index in honest]  # type: ignore[assignment]
        self.honest = times
        table.add(name, labels, times, told)


def _troubles(table: Table, lies: int) -> list[Trouble]:
    found = []
    if lies:
        found.append(Trouble("clock-lies", "", _LIES.format(lies)))
    if table.repeated:
        words = f"{table.repeated} samples come from two series of one device; the first of each was taken."
        found.append(Trouble("repeated-series", "", words + ONE_TELLER))
    if table.foreign:
        words = f"{table.foreign} series name no GPU as NVIDIA does (label UUID) and were refused."
        found.append(Trouble("no-device", "", words + KEEP_UUID))
    if table.odd:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(table.odd.items()))
        words = f"Values that the hardware cannot have were taken as unknown: {names}."
        found.append(Trouble("out-of-range", "", words + OTHER_DRIVER))
    return found


def _whole(at: datetime) -> datetime:
    """Prometheus knows milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
