"""A real HTTP server on loopback that answers what a test tells it to, faults of the network included: as it
is, or as a Prometheus with samples that a test has written.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from apps.metering.telemetry.rules.sources.reading import COLUMNS, Batch
from apps.metering.telemetry.services import polling


@dataclass
class Answer:
    """`promised` bytes are told in Content-Length though `body` may be shorter: a connection that breaks."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None


@dataclass
class Scripted:
    """The server's address, and what it was asked: (path, query)."""

    url: str
    asked: list[tuple[str, dict[str, str]]]


Script = Callable[[str, dict[str, str]], Answer]


@contextmanager
def serving(script: Script) -> Iterator[Scripted]:
    """Answer by a function of path and query until the block ends."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            asked.append((parts.path, query))
            answer = script(parts.path, query)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(answer.promised or len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STEP = timedelta(seconds=30)
GPU = "GPU-11111111-2222-3333-4444-555555555555"
SM, DRAM, USED = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_FB_USED"


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def labels(**more: str) -> dict[str, str]:
    return {"UUID": GPU, "Hostname": "node-1", "job": "dcgm-exporter", **more}


def success(*series: dict[str, Any]) -> Answer:
    return Answer(
        orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}})
    )


class Told:
    """A Prometheus whose samples a test has written: (labels, [(time, text)]) by field. It honours ranges."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], list[tuple[datetime, str]]]]] = {}
        self.strangers: list[dict[str, str]] = []
        self.lies = False

    def add(self, name: str, samples: list[tuple[datetime, str]], **more: str) -> None:
        self.series.setdefault(name, []).append((labels(**more), samples))

    def __call__(self, path: str, query: dict[str, str]) -> Answer:
        assert path == "/api/v1/query"
        if query["query"].startswith("count by"):
            return success(*({"metric": each, "value": [0, "1"]} for each in self.strangers))
        name, _, rest = query["query"].partition("{")
        until, width = float(query["time"]), int(rest.partition("[")[2].removesuffix("ms]")) / 1000
        found = []
        for metric, samples in self.series.get(name, []):
            inside = [
                [t.timestamp(), v] for t, v in samples if until - width <= t.timestamp() <= until or self.lies
            ]
            if inside:
                found.append({"metric": metric, "values": inside})
        return success(*found)


def rows(batches: list[Batch]) -> list[tuple[datetime, dict[str, int]]]:
    return [
        (
            datetime.fromtimestamp(each.ts / 1e6, UTC),
            {name: v for name, v in zip(COLUMNS, each.values, strict=True) if v is not None},
        )
        for batch in batches
        for each in sorted(batch.every(), key=lambda each: each.ts)
    ]


def text(node: str, uuid: str = GPU, sm: str = "0.5") -> bytes:
    return f'{SM}{{UUID="{uuid}",Hostname="{node}"}} {sm}\n'.encode()


@contextmanager
def telemetry_settings(settings: Any) -> Iterator[Callable[..., None]]:
    """Sets settings of telemetry for a test; sources that were opened before are forgotten."""
    polling._opened.cache_clear()

    def configure(**told: object) -> None:
        settings.CONFIG = settings.CONFIG.model_copy(update={f"telemetry_{k}": v for k, v in told.items()})

    yield configure
    polling._opened.cache_clear()
