"""Exporters asked directly: dcgm-exporter's text, or our own agent's, which is the same text.

For the demo and small clusters. There is no past to read: what was missed is unknown.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson

from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import Batch, Reading, SourceSilent, Trouble, micros
from apps.metering.telemetry.rules.sources.scrape import Exporter, Scrape
from apps.metering.telemetry.rules.sources.web import Web

_AT_ONCE = 16
_MOST_TARGETS = 2048
_SILENT = (
    "The exporter on {0} cannot be read, so what its GPUs do is unknown: {1} See whether its pod runs and its"
    " port is open to the worker: kubectl get pods -A -o wide --field-selector spec.nodeName={0}"
)
_TWO_HOMES = (
    "{0} is reported by {1} and by {2}; only the first was believed. Take one of the two from the list of"
    " targets, or give the exporters one node name: a GPU has one exporter."
)


@dataclass(frozen=True)
class Target:
    """One exporter: its node, as far as the list tells it, and where it answers."""

    node: str
    url: str


class Exporters:
    """A `Source` that asks every exporter once per read.

    `where` is a list in the form of Prometheus' HTTP service discovery, or the exporters' own addresses,
    comma separated and ending in /metrics. `clock` tells the time of an answer.
    """

    def __init__(
        self, where: str, web: Web, step: timedelta, *, clock: Callable[[], datetime], names: LabelNames
    ) -> None:
        self._where = where
        self._web = web
        self._step = step
        self._clock = clock
        self._names = names
        self._exporters: dict[str, Exporter] = {}

    def read(self, since: datetime, until: datetime) -> Iterator[Batch]:
        """See `Source`. One batch of what is so now.

        RULE: asked again before half a step has gone by, it answers nothing: the exporter would repeat
        itself.
        """
        if until - since < self._step / 2:
            return
        targets = self._targets()
        batch = Batch([], until, self._step)
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="exporters") as pool:
            for found in pool.map(self._ask, targets):
                batch.troubles += found.troubles
                batch.readings += found.readings
        batch.readings, doubled = _once(batch.readings)
        batch.troubles += doubled
        batch.until = max(until, self._clock())
        yield batch

    def _ask(self, target: Target) -> Scrape:
        try:
            raw = self._web.get(target.url)
        except SourceSilent as error:
            return Scrape([], [Trouble("exporter-silent", target.node, _SILENT.format(target.node, error))])
        ts = micros(self._clock()) // 1000 * 1000
        exporter = self._exporters.setdefault(target.url, Exporter(target.node, self._names))
        # A byte that is no UTF-8 spoils its own line only.
        return exporter.read(raw.decode(errors="replace"), ts)

    def _targets(self) -> list[Target]:
        addresses = [each.strip() for each in self._where.split(",") if each.strip()]
        if all(urlsplit(each).path.endswith("/metrics") for each in addresses):
            return [Target(urlsplit(each).hostname or each, each) for each in addresses]
        raw = self._web.get(self._where)
        try:
            listed = orjson.loads(raw)
            found = [t for group in listed for t in discovered(self._where, group)]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise SourceSilent(f"{self._where} is not a target list (Prometheus HTTP discovery).") from error
        if len(found) > _MOST_TARGETS:
            raise SourceSilent(f"{len(found)} exporters are too many to ask one by one: use Prometheus.")
        return found


def discovered(base: str, group: Mapping[str, Any]) -> list[Target]:
    """The targets of one group of a discovery list.

    RULE: a target without a port is served by the list's own server, below `__metrics_path__`.
    """
    labels = group.get("labels") or {}
    path = str(labels.get("__metrics_path__") or "/metrics")
    scheme = str(labels.get("__scheme__") or "http")
    found = []
    for target in group["targets"]:
        url = f"{scheme}://{target}{path}" if ":" in target else urljoin(base, path)
        found.append(Target(str(labels.get("node") or target.rpartition(":")[0] or target), url))
    return found


def _once(readings: list[Reading]) -> tuple[list[Reading], list[Trouble]]:
    """RULE: a device is where it is first told; a second exporter that tells it, too, is not believed."""
    homes: dict[tuple[str, int, int], str] = {}
    kept, troubles = [], []
    for each in readings:
        device = each.device
        home = homes.setdefault(device[:3], device.node)
        if home == device.node:
            kept.append(each)
        else:
            words = _TWO_HOMES.format(device.uuid, home, device.node)
            troubles.append(Trouble("two-homes", device.node, words))
    return kept, troubles
