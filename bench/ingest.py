"""Telemetry against PostgreSQL's own limit; needs no cluster.

    G7   parse, join, dedup and store what Prometheus answers   vs  binary COPY of the same rows, same indexes
    G7d  the same from the exporters' text                      vs  the same
    G8   as G7                                                  vs  bulk_create(ignore_conflicts)
    G11c CPU of 10,000 GPUs, one sample each per 30 s           as a share of one core

The product and the bare statement take turns in one process on one database; rows are counted after each.
"""

import functools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from bench.figures import Ratio

STEP = timedelta(seconds=30)
BEGINS = datetime(2026, 3, 2, tzinfo=UTC)
FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": 3, "DCGM_FI_DEV_GPU_TEMP": 2, "DCGM_FI_DEV_POWER_USAGE": -1,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 11, "DCGM_FI_DEV_GPU_UTIL": 2, "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_FB_FREE": 5, "DCGM_FI_DEV_FB_USED": 5, "DCGM_FI_DEV_FB_RESERVED": 3,
    "DCGM_FI_PROF_SM_ACTIVE": -6, "DCGM_FI_PROF_SM_OCCUPANCY": -6, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": -6,
    "DCGM_FI_PROF_DRAM_ACTIVE": -6, "DCGM_FI_PROF_PCIE_TX_BYTES": 9, "DCGM_FI_PROF_PCIE_RX_BYTES": 9,
}  # fmt: skip
"""What dcgm-exporter sends with SM activity switched on: digits of whole numbers, or of fractions (< 0)."""
CHUNKS = 4
Line = dict[str, object]


@dataclass
class Answers:
    """In the place of `Web`: what a Prometheus would answer, made before the clock runs."""

    gpus: int
    ticks: int
    bodies: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def add(self, begins: datetime) -> None:
        """Everything of one chunk that begins there."""
        chance = random.Random(begins.timestamp())
        until = f"{(begins + self.ticks * STEP).timestamp():.3f}"
        times = [(begins + n * STEP).timestamp() + 0.25 for n in range(self.ticks)]
        for name, digits in FIELDS.items():
            found = [
                {"metric": self._series(name, gpu), "values": [[at, _value(chance, digits)] for at in times]}
                for gpu in range(self.gpus)
            ]
            body = {"status": "success", "data": {"resultType": "matrix", "result": found}}
            self.bodies[until, name] = orjson.dumps(body)

    def get(self, url: str, query: Mapping[str, str] | None = None) -> bytes:
        """As `Web.get`."""
        del url
        name = (query or {})["query"].partition("{")[0]
        return self.bodies.get(((query or {})["time"], name), b'{"status":"success","data":{"result":[]}}')

    @classmethod
    def _series(cls, name: str, gpu: int) -> dict[str, str]:
        """The name among the labels, and all in the order of their letters: as Prometheus writes them."""
        return dict(sorted({"__name__": name, **cls._labels(gpu)}.items()))

    @staticmethod
    def _labels(gpu: int) -> dict[str, str]:
        node = f"h100-{gpu // 8}"
        return {
            "DCGM_FI_DRIVER_VERSION": "580.95.05", "Hostname": node, "UUID": _uuid(gpu), "gpu": str(gpu % 8),
            "device": f"nvidia{gpu % 8}", "modelName": "NVIDIA H100 80GB HBM3", "job": "dcgm-exporter",
            "pci_bus_id": "00000000:0F:00.0", "exported_pod": f"train-{gpu}", "exported_namespace": "vision",
            "exported_container": "main", "namespace": "gpu", "pod": f"exporter-{node}", "instance": node,
        }  # fmt: skip


def _value(chance: random.Random, digits: int) -> str:
    return str(chance.randrange(10**digits)) if digits >= 0 else f"{chance.random():.{-digits}f}"


def _uuid(gpu: int) -> str:
    return f"GPU-{gpu:08d}-0000-0000-0000-000000000000"


def _text(node: int, at: datetime) -> str:
    chance = random.Random(f"{node} {at}")
    lines = []
    for name, digits in FIELDS.items():
        lines.append(f"# HELP {name} Something.\n# TYPE {name} gauge\n")
        for gpu in range(node * 8, node * 8 + 8):
            told = {k: v for k, v in Answers._labels(gpu).items() if not k.startswith(("exp", "job", "inst"))}
            labels = ",".join(f'{key}="{value}"' for key, value in told.items())
            lines.append(f"{name}{{{labels}}} {_value(chance, digits)}\n")
    return "".join(lines)


class Bench:
    """One cluster, a backlog of some chunks, and the ways to store it.

    A collector that catches up asks chunk by chunk, and reads the next while the database stores one.
    """

    def __init__(self, gpus: int, ticks: int, chunks: int = 1) -> None:
        from apps.cluster.models import Cluster
        from apps.metering.telemetry.rules.sources import prometheus
        from apps.metering.telemetry.rules.sources.prometheus import Believed, Prometheus

        # As long as it asks for after its first answer.
        prometheus.CHUNK = ticks * STEP

        self.cluster, _ = Cluster.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
        self.gpus, self.ticks, self.chunks = gpus, ticks * chunks, chunks
        self.span, self.chunk = ticks * STEP * chunks, ticks * STEP
        self.answers = Answers(gpus, ticks)
        web: Any = self.answers
        self.source = Prometheus("http://prometheus", web, Believed("dcgm-exporter", "gpu"), STEP)
        self.begins = BEGINS

    def next(self) -> None:
        """Another stretch of time, so that every round stores new rows."""
        self.begins += self.span
        self.answers.bodies.clear()
        for number in range(self.chunks):
            self.answers.add(self.begins + number * self.chunk)

    def ours(self) -> int:
        """The product: from bytes of JSON to rows, marks and position."""
        from apps.metering.specs import Source
        from apps.metering.telemetry.rules.sources.ahead import ahead
        from apps.metering.telemetry.rules.sources.prometheus import SETTLE
        from apps.metering.telemetry.services.ingest import store

        until = self.begins + self.span
        batches = ahead(self.source.read(self.begins, until + SETTLE))
        return sum(store(self.cluster, b, source=Source.PROMETHEUS, now=until).stored for b in batches)

    def rows(self) -> list[tuple[Any, ...]]:
        """The same rows, made before the clock runs."""
        from apps.metering.models import Device
        from apps.metering.telemetry.rules.sources.prometheus import SETTLE
        from apps.metering.telemetry.rules.sources.reading import moment

        ids = dict(Device.objects.values_list("uuid", "pk"))
        batches = self.source.read(self.begins, self.begins + self.span + SETTLE)
        return [(ids[r.device.uuid], moment(r.ts), 30, *r.values) for batch in batches for r in batch.every()]


def _bare() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bare")
        cursor.execute("CREATE TABLE bare (LIKE metering_sample INCLUDING ALL)")


def _copy(rows: list[tuple[Any, ...]]) -> int:
    """Binary COPY of finished rows into a bare table with the same indexes."""
    from django.db import connection, transaction

    from apps.metering.telemetry.services import sample_store

    with transaction.atomic(), connection.cursor() as cursor:
        with cursor.copy(f"COPY bare ({sample_store._NAMES}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "timestamptz", *sample_store._TYPES[2:]])
            for row in rows:
                copy.write_row(row)
        cursor.execute("SELECT count(*) FROM bare")
        return int(cursor.fetchone()[0])


def _bulk_create(rows: list[tuple[Any, ...]]) -> int:
    """What a Django application would do; later rows, so that nothing is there already."""
    from apps.metering.models import Sample
    from apps.metering.telemetry.rules.sources.reading import COLUMNS

    names = ("device_id", "ts", "seconds", *COLUMNS)
    made = [Sample(**dict(zip(names, row, strict=True))) for row in rows]
    return len(Sample.objects.bulk_create(made, ignore_conflicts=True, batch_size=2000))


class Clock:
    """Wall and CPU seconds of one way, round by round. CPU is this process's and its PostgreSQL backend's: on
    a machine that others use, it is the steadier of the two.
    """

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def time(self, work: Callable[[], int], rows: int, *, scale: float = 1.0) -> None:
        """One round; the work answers how many rows it stored."""
        began, used = time.perf_counter(), _cpu()
        done = work()
        self.wall.append((time.perf_counter() - began) * scale)
        self.cpu.append((_cpu() - used) * scale)
        if done != rows:
            raise AssertionError(f"{done} rows instead of {rows}: a wrong result has no speed")


def _cpu() -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        told = Path(f"/proc/{cursor.fetchone()[0]}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def samples(rounds: int, *, gpus: int = 2000, crowd: int = 10_000) -> Iterator[Line]:
    """G7, G8 and G11c; `crowd` GPUs in the last."""
    from apps.metering.telemetry.rules.sources import prometheus

    bench = Bench(gpus, min(120, max(1, prometheus.MOST_AT_ONCE // gpus)), CHUNKS)
    bench.next()
    bench.ours()
    yield from _against(bench, rounds)
    yield from _texts(bench, rounds)
    yield _crowd(crowd)


def _against(bench: Bench, rounds: int) -> Iterator[Line]:
    expected = bench.gpus * bench.ticks
    ours, copies, bulks = Clock(), Clock(), Clock()
    for number in range(rounds):
        bench.next()
        rows = bench.rows()
        _bare()
        ways: list[tuple[Clock, Callable[[], int]]] = [
            (ours, bench.ours),
            (copies, lambda rows=rows: _copy(rows)),  # type: ignore[misc]
        ]
        for clock, way in ways if number % 2 else ways[::-1]:
            clock.time(way, expected)
        later = [(row[0], row[1] - timedelta(days=15), *row[2:]) for row in rows[: expected // (10 * CHUNKS)]]
        _ensure(later)
        bulks.time(
            lambda later=later: _bulk_create(later),  # type: ignore[misc]
            len(later), scale=expected / len(later),
        )  # fmt: skip
        yield _round("g7", number, expected, ours=ours, copy=copies, bulk_create=bulks)
    yield from _ratios("g7 ours / COPY, rows per second", copies, ours, goal=0.4)
    yield from _ratios("g8 ours / bulk_create, rows per second", bulks, ours, goal=4)


def _ratios(what: str, theirs: Clock, ours: Clock, **more: object) -> Iterator[Line]:
    yield {"what": what, **more, **Ratio.of(theirs.wall, ours.wall).shown()}
    yield {"what": f"{what.partition(',')[0]}, rows per CPU second", **Ratio.of(theirs.cpu, ours.cpu).shown()}


def _ensure(rows: list[tuple[Any, ...]]) -> None:
    from django.db import transaction

    from apps.metering.telemetry.rules.sources.reading import micros
    from apps.metering.telemetry.services import partitions

    with transaction.atomic():
        partitions.ensure({micros(row[1]) // 86_400_000_000 for row in rows})


def _texts(bench: Bench, rounds: int) -> Iterator[Line]:
    """The exporters' text, ten scrapes of every node at a time."""
    from apps.metering.specs import Source
    from apps.metering.telemetry.rules.sources.naming import LabelNames
    from apps.metering.telemetry.rules.sources.reading import Batch, micros, moment
    from apps.metering.telemetry.rules.sources.scrape import Exporter
    from apps.metering.telemetry.services.ingest import store

    nodes = max(1, bench.gpus // 8)
    exporters = [Exporter(f"h100-{node}", LabelNames()) for node in range(nodes)]
    ours, copies = Clock(), Clock()

    def stored(scraped: Callable[[], Batch]) -> int:
        batch = scraped()
        return store(bench.cluster, batch, source=Source.DCGM, now=batch.until).stored

    for number in range(rounds):
        bench.begins += bench.span
        ats = [bench.begins + n * STEP for n in range(10)]
        texts = [[_text(node, at) for node in range(nodes)] for at in ats]
        for node, exporter in enumerate(exporters):
            exporter.read(texts[0][node], micros(ats[0]))

        def scraped(texts: list[list[str]] = texts, ats: list[datetime] = ats) -> Batch:
            pairs = zip(ats, texts, strict=True)
            found = [
                reading
                for at, page in pairs
                for exporter, text in zip(exporters, page, strict=True)
                for reading in exporter.read(text, micros(at)).readings
            ]
            return Batch(found, ats[-1], STEP)

        rows = [(1, moment(r.ts + n), 30, *r.values) for n, r in enumerate(scraped().readings)]
        _bare()
        copies.time(lambda rows=rows: _copy(rows), len(rows))  # type: ignore[misc]
        ours.time(functools.partial(stored, scraped), len(rows))
        yield _round("g7d", number, len(rows), ours=ours, copy=copies)
    yield from _ratios("g7d exporters' text / COPY, rows per second", copies, ours)


def _crowd(gpus: int) -> Line:
    """The collector's own CPU; PostgreSQL's is not the collector's."""
    bench = Bench(gpus, 1)
    for _ in range(2):
        bench.next()
        bench.ours()
    used = []
    for _ in range(5):
        bench.next()
        began = time.process_time()
        if bench.ours() != gpus:
            raise AssertionError("rows are missing")
        used.append(time.process_time() - began)
    share = sorted(used)[len(used) // 2] / STEP.total_seconds()
    return {
        "what": f"g11c CPU for {gpus} GPUs at 30 s, share of a core",
        "goal": 0.25,
        "ratio": round(share, 4),
    }


def _round(what: str, number: int, rows: int, **clocks: Clock) -> Line:
    speeds = {f"{name}_rows_per_s": round(rows / clock.wall[-1]) for name, clock in clocks.items()}
    costs = {f"{name}_cpu_us": round(clock.cpu[-1] / rows * 1e6, 1) for name, clock in clocks.items()}
    return {
        "round": f"{what} {number + 1}",
        "rows": rows,
        "load": round(os.getloadavg()[0], 1),
        **speeds,
        **costs,
    }
