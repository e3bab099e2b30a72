"""The exporters asked directly, over real HTTP; and reading one batch ahead."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import orjson
import pytest

from apps.metering.telemetry.rules.sources.ahead import ahead
from apps.metering.telemetry.rules.sources.dcgm import Exporters
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.reading import SourceSilent
from apps.metering.telemetry.rules.sources.web import Access, Web
from tests.metering.scripted import (
    GPU,
    NOON,
    STEP,
    Answer,
    Scripted,
    at,
    rows,
    serving,
    text,
)


def exporters(server: Scripted, where: str = "/targets") -> Exporters:
    url = ",".join(f"{server.url}{each}" for each in where.split(","))
    return Exporters(url, Web(Access()), STEP, clock=lambda: NOON, names=LabelNames())


def listed(*nodes: str) -> bytes:
    return orjson.dumps(
        [{"targets": [node], "labels": {"__metrics_path__": f"/nodes/{node}/metrics"}} for node in nodes]
    )


def test_every_exporter_of_a_list_is_asked_and_a_silent_one_is_told_of() -> None:
    def script(path: str, _: dict[str, str]) -> Answer:
        answers = {"/targets": Answer(listed("a", "b", "c")), "/nodes/a/metrics": Answer(text("a", "GPU-a")),
                   "/nodes/b/metrics": Answer(b"", 503),
                   "/nodes/c/metrics": Answer(text("c", "GPU-c"), promised=9999)}  # fmt: skip
        return answers[path]

    with serving(script) as server:
        (batch,) = exporters(server).read(at(-1), NOON)
    assert [each.device.node for each in batch.readings] == ["a"]
    assert [(each.kind, each.node) for each in batch.troubles] == [
        ("exporter-silent", "b"), ("exporter-silent", "c")
    ]  # fmt: skip


def test_exporters_can_be_named_one_by_one() -> None:
    with serving(lambda path, _: Answer(text(path[1], f"GPU-{path[1]}"))) as server:
        (batch,) = exporters(server, "/a/metrics,/b/metrics").read(at(-1), NOON)
    assert {each.device.uuid for each in batch.readings} == {"GPU-a", "GPU-b"}


def test_a_device_that_two_exporters_tell_is_believed_once() -> None:
    with serving(lambda path, _: Answer(text(path[1], GPU, "0.1" if path[1] == "a" else "0.9"))) as server:
        (batch,) = exporters(server, "/a/metrics,/b/metrics").read(at(-1), NOON)
    assert rows([batch]) == [(NOON, {"sm_active": 100_000})]
    assert [each.kind for each in batch.troubles] == ["two-homes"]


def test_asked_again_at_once_there_is_nothing_new() -> None:
    with serving(lambda *_: Answer(listed())) as server:
        assert list(exporters(server).read(NOON - STEP / 3, NOON)) == []


@pytest.mark.parametrize("bad", [b"<html>", b'{"targets": 1}', b"[1]", b'[{"labels": {}}]'])
def test_a_list_that_is_none_is_silence(bad: bytes) -> None:
    with (
        serving(lambda *_: Answer(bad)) as server,
        pytest.raises(SourceSilent, match="not a target list"),
    ):
        list(exporters(server).read(at(-1), NOON))


def test_bytes_that_are_no_text_spoil_their_line_only() -> None:
    body = text("a")[:-1] + b"\n\xff\xfe{} \xff\n"
    with serving(lambda *_: Answer(body)) as server:
        (batch,) = exporters(server, "/a/metrics").read(at(-1), NOON)
    assert rows([batch]) == [(NOON, {"sm_active": 500_000})]
    assert [each.kind for each in batch.troubles] == ["malformed"]


# Connections.


class Kept(BaseHTTPRequestHandler):
    """Keeps connections, and ends the first ones at their second request, or at once, without a word."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[list[int]] = []
    """How many requests came by each."""
    most: ClassVar[list[int]] = []
    """How many of them the first ones answer."""

    def setup(self) -> None:
        super().setup()
        self.number = len(self.connections)
        self.connections.append(0)

    def do_GET(self) -> None:
        self.connections[self.number] += 1
        if self.number < len(self.most) and self.connections[self.number] > self.most[self.number]:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Quiet."""


@pytest.fixture
def kept() -> Iterator[str]:
    Kept.connections, Kept.most = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kept)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_next_read_goes_by_the_same_connection(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(Access())
    assert web.get(kept) == b"ok"
    later = time.monotonic() + 2 * STEP.total_seconds()
    monkeypatch.setattr("httpcore._sync.http11.time.monotonic", lambda: later)
    assert web.get(kept) == b"ok"
    web.close()
    assert Kept.connections == [2]


def test_a_connection_that_ends_as_it_is_used_again_is_no_silence(kept: str) -> None:
    web = Web(Access())
    Kept.most = [1]
    assert [web.get(kept), web.get(kept)] == [b"ok", b"ok"]
    web.close()
    assert Kept.connections == [2, 1]


def test_who_ends_every_connection_without_a_word_is_silent(kept: str) -> None:
    Kept.most = [0, 0, 0]
    web = Web(Access())
    with pytest.raises(SourceSilent):
        web.get(kept)
    web.close()
    assert Kept.connections == [1, 1]


# Reading ahead.


def test_reading_ahead_keeps_order_and_passes_errors_on() -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise SourceSilent("gone")

    found: list[int] = []
    with pytest.raises(SourceSilent, match="gone"):
        found.extend(ahead(source()))
    assert found == [1, 2]


def test_reading_ahead_stops_when_nobody_asks_any_more() -> None:
    made = []

    def source() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    items = ahead(source())
    assert next(items) == 0
    items.close()
    assert len(made) < 5
