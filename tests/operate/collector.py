"""A collector of traces: it takes OTLP over HTTP as the real ones do, and keeps what came."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from apps.web import spans
from portal.operate.tracing import recording, starting
from tests.patience import patient


@dataclass(frozen=True)
class Seen:
    """A span as it came; ids in hexadecimal, `parent` empty of the first of its trace."""

    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    about: dict[str, Any]
    events: tuple[str, ...]
    failed: bool
    part: str
    service: str


class Collector(ThreadingHTTPServer):
    """Answers `code`, and nothing at all until `goes_on`."""

    daemon_threads = True
    code = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Seen] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.came, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def named(self, start: str) -> list[Seen]:
        """The spans whose name begins so."""
        return [each for each in self.spans if each.name.startswith(start)]

    def one(self, start: str) -> Seen:
        (found,) = self.named(start)
        return found

    def handle_error(self, *_: Any) -> None:
        """A sender that gave up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """See Collector."""

    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        self.server.came.set()
        self.server.goes_on.wait(patient(60))
        self.server.headers.append(dict(self.headers))
        self.server.bodies.append(body)
        if self.server.code == 200:
            self.server.spans += read(body)
        self.send_response(self.server.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def read(body: bytes) -> list[Seen]:
    """The spans of a sending."""
    sent = ExportTraceServiceRequest.FromString(body)
    return [
        seen(span, values(resource.resource.attributes))
        for resource in sent.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def seen(span: Any, whose: dict[str, Any]) -> Seen:
    """One of them, of a process that says this of itself."""
    return Seen(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple(link.span_id.hex() for link in span.links),
        values(span.attributes),
        tuple(event.name for event in span.events),
        span.status.code == Status.STATUS_CODE_ERROR,
        whose["allotment.part"],
        whose["service.name"],
    )


def values(attributes: Any) -> dict[str, Any]:
    """Name and value of each."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def served() -> Iterator[Collector]:
    with Collector() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.goes_on.set()
        running.shutdown()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """One that runs, and named by the variables that OpenTelemetry's SDK reads."""
    with served() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


@pytest.fixture
def traced(collector: Collector) -> Iterator[Collector]:
    """The tests' process records as the web does."""
    starting.start("web")
    yield collector
    recording.stop()
    spans.use(None)
