"""The only module that reads OpenTelemetry: `apps.web.spans` recorded by its SDK and sent by OTLP over HTTP.

RULE: a collector that is away or slow costs no request, no task and no shutdown anything. Spans wait in a
queue of bounded length for a thread that sends them; what does not fit is dropped, and the log has one line.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from apps.web import spans
from apps.web.spans import Attributes, Begin
from apps.web.stores.outage import Outages
from portal.operate.versions import VERSION

SEND_SECONDS = 3.0
"""For how long one sending may try, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise. The SDK has 10."""
STOP_SECONDS = 1.0
"""How long the end of a process waits for what is left."""
KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}
UNNAMED = "unknown_service"
"""What the SDK calls a service that nobody named."""
_W3C = TraceContextTextMapPropagator()


class _Under:
    """A span of the SDK as the domain sees it."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def name(self, text: str) -> None:
        self._span.update_name(text)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        self._span.set_attribute("error.type", reason)
        self._span.set_status(StatusCode.ERROR)


class Recorder:
    """See `apps.web.spans.Recorder`."""

    def __init__(self, part: str, exporter: SpanExporter) -> None:
        # Ended by `stop`, with less patience than the SDK's own end of a process has.
        self._provider = TracerProvider(resource=_resource(part), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("allotment", VERSION)

    @contextmanager
    def span(self, begin: Begin) -> Iterator[spans.Span]:
        """See there. An error's message and its stack stay out: they may say anything."""
        with self._tracer.start_as_current_span(
            begin.name,
            context=_W3C.extract({"traceparent": begin.parent}) if begin.parent else None,
            kind=KINDS[begin.kind],
            attributes=begin.attributes,
            links=[Link(_named(text)) for text in begin.links],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            under = _Under(span)
            try:
                yield under
            except BaseException as error:
                under.fail(type(error).__name__)
                raise

    def event(self, name: str, attributes: Attributes) -> None:
        """See there."""
        trace.get_current_span().add_event(name, attributes)

    def current(self) -> str:
        """See there."""
        carrier: dict[str, str] = {}
        if trace.get_current_span().is_recording():
            _W3C.inject(carrier)
        return carrier.get("traceparent", "")

    def stop(self) -> None:
        """Sends what is left, for `STOP_SECONDS` at most."""
        ending = Thread(target=self._provider.shutdown, name="tracing-ends", daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)


class _Sending(SpanExporter):
    """Says once that the collector is away and once that it is back; the SDK's own would say so each time."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self._outages = exporter, Outages("the collector of traces")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._outages.over()
        else:
            self._outages.note(ConnectionError("what it was sent is dropped"))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


_recorders: dict[int, Recorder] = {}


def start(part: str) -> None:
    """Records from now on what this process does; once."""
    if os.getpid() not in _recorders:
        recorder = _recorders[os.getpid()] = Recorder(part, _Sending(_exporter(SEND_SECONDS)))
        spans.use(recorder)


def stop() -> None:
    """Records no more, and sends what is left."""
    if recorder := _recorders.pop(os.getpid(), None):
        spans.use(None)
        recorder.stop()


def takes_spans(seconds: float) -> bool:
    """Whether the collector takes an empty sending, asked now."""
    exporter = _exporter(seconds)
    try:
        return exporter.export([]) is SpanExportResult.SUCCESS
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _exporter(seconds: float) -> OTLPSpanExporter:
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # we say it ourselves
    names = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    return OTLPSpanExporter(timeout=None if any(map(os.environ.get, names)) else seconds)


def _resource(part: str) -> Resource:
    """What the variables say of the service comes before what we do."""
    own = {
        "service.name": "allotment",
        "service.version": VERSION,
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        "allotment.part": part,
    }
    said = {
        name: value
        for name, value in Resource.create().attributes.items()
        if not str(value).startswith(UNNAMED)
    }
    return Resource.create(own).merge(Resource(said))


def _named(traceparent: str) -> SpanContext:
    context = _W3C.extract({"traceparent": traceparent})
    return trace.get_current_span(context).get_span_context()
