"""Prometheus as a source, over real HTTP: what is read and refused, and how it bears a broken other side."""

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import process_time
from typing import Any

import orjson
import pytest

from apps.metering.telemetry.rules.sources.limits import MOST_BYTES
from apps.metering.telemetry.rules.sources.prometheus import SETTLE, Believed, Prometheus
from apps.metering.telemetry.rules.sources.reading import Batch, SourceSilent
from apps.metering.telemetry.rules.sources.web import Access, Web
from tests.metering.scripted import (
    DRAM,
    NOON,
    SM,
    STEP,
    USED,
    Answer,
    Scripted,
    Told,
    at,
    rows,
    serving,
    success,
)
from tests.patience import patient


def prometheus(server: Scripted, **believed: Any) -> Prometheus:
    return Prometheus(server.url, Web(Access()), Believed("dcgm-exporter", **believed), STEP)


def read_all(source: Prometheus, since: datetime, until: datetime) -> list[Batch]:
    return list(source.read(since, until + SETTLE))


def test_fields_of_one_scrape_become_one_reading() -> None:
    told = Told()
    told.add(SM, [(at(1), "0.5"), (at(1.5), "0.25")])
    told.add(DRAM, [(at(1), "0.1"), (at(1.5), "0.2")])
    told.add(USED, [(at(1), "1000"), (at(1.5), "1001")])
    with serving(told) as server:
        found = read_all(prometheus(server), NOON, at(5))
    assert rows(found) == [
        (at(1), {"sm_active": 500_000, "dram_active": 100_000, "memory_used_mib": 1000}),
        (at(1.5), {"sm_active": 250_000, "dram_active": 200_000, "memory_used_mib": 1001}),
    ]
    assert [batch.troubles for batch in found] == [[]]


def test_a_field_that_is_missing_at_one_time_is_unknown_there_only() -> None:
    told = Told()
    told.add(SM, [(at(1), "0.5"), (at(2), "0.25"), (at(3), "NaN")])
    told.add(DRAM, [(at(2), "0.2"), (at(3), "0.3"), (at(4), "0.4")])
    with serving(told) as server:
        found = rows(read_all(prometheus(server), NOON, at(5)))
    assert found == [
        (at(1), {"sm_active": 500_000}),
        (at(2), {"sm_active": 250_000, "dram_active": 200_000}),
        (at(3), {"dram_active": 300_000}),
        (at(4), {"dram_active": 400_000}),
    ]


def test_a_long_gap_is_read_in_chunks_that_leave_nothing_out_and_nothing_twice() -> None:
    told = Told()
    times = [at(m / 2) for m in range(1, 20 * 60)]
    told.add(SM, [(t, "0.5") for t in times])
    with serving(told) as server:
        batches = read_all(prometheus(server), NOON, at(600))
    assert [t for t, _ in rows(batches)] == [t for t in times if t <= at(600)]
    assert [batch.until for batch in batches] == [at(10), *(at(10 + 60 * n) for n in range(1, 10)), at(600)]


def test_chunks_of_a_large_fleet_are_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.metering.telemetry.rules.sources.prometheus.MOST_AT_ONCE", 12)
    told = Told()
    told.add(SM, [(at(m / 2), "0.5") for m in range(1, 60)])
    with serving(told) as server:
        batches = read_all(prometheus(server), NOON, at(30))
    assert [batch.until for batch in batches] == [at(m) for m in (10, 16, 22, 28, 30)]


def test_only_the_configured_job_and_namespace_are_asked_for() -> None:
    with serving(Told()) as server:
        read_all(prometheus(server, namespace='gpu"x'), NOON, at(1))
    asked = [query["query"] for _, query in server.asked if not query["query"].startswith("count by")]
    assert all('{job="dcgm-exporter",namespace="gpu\\"x"}[60000ms]' in each for each in asked)


def test_series_of_another_job_or_namespace_are_told_of() -> None:
    told = Told()
    told.strangers = [{"job": "dcgm-exporter", "namespace": "gpu"}, {"job": "mine", "namespace": "gpu"},
                      {"job": "dcgm-exporter", "namespace": "evil"}]  # fmt: skip
    with serving(told) as server:
        troubles = [t for b in read_all(prometheus(server, namespace="gpu"), NOON, at(1)) for t in b.troubles]
    assert [each.kind for each in troubles] == ["foreign-series", "foreign-series"]
    assert "mine" in troubles[0].message
    assert "evil" in troubles[1].message


def test_samples_from_outside_the_asked_time_are_lies() -> None:
    told = Told()
    told.lies = True
    told.add(SM, [(at(-600), "0.1"), (at(1), "0.5"), (at(600), "0.9")])
    with serving(told) as server:
        found = read_all(prometheus(server), NOON, at(5))
    assert rows(found) == [(at(1), {"sm_active": 500_000})]
    assert [each.kind for each in found[0].troubles] == ["clock-lies"]


def test_two_series_of_one_device_count_once() -> None:
    told = Told()
    told.add(SM, [(at(1), "0.5"), (at(2), "0.5")], instance="a")
    told.add(SM, [(at(1), "0.9"), (at(3), "0.9")], instance="b")
    with serving(told) as server:
        found = read_all(prometheus(server), NOON, at(5))
    assert [row for _, row in rows(found)] == [{"sm_active": n} for n in (500_000, 500_000, 900_000)]
    assert [each.kind for each in found[0].troubles] == ["repeated-series"]


def test_pods_are_read_by_the_labels_that_prometheus_gave_them() -> None:
    told = Told()
    told.add(SM, [(at(1), "0.5")], pod="dcgm-exporter-x", namespace="gpu", exported_pod="train-0",
             exported_namespace="vision")  # fmt: skip
    with serving(told) as server:
        found = read_all(prometheus(server), NOON, at(5))
    assert found[0].every()[0].device.pods == (("vision", "train-0"),)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"slow down", 429),
        Answer(b"busy", 503),
        Answer(b"oh no", 500),
        Answer(b"<html>", 200),
        Answer(b"{}", 200),
        Answer(b"[1, 2", 200),
        Answer(b'{"status":"error","error":"too many samples"}', 200),
        Answer(b'{"status": "suc', 200, promised=100_000),
        Answer(b"", 302, {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=str,
)
def test_whatever_goes_wrong_is_silence_in_words(answer: Answer) -> None:
    with serving(lambda *_: answer) as server, pytest.raises(SourceSilent) as silence:
        read_all(prometheus(server), NOON, at(5))
    assert server.url in str(silence.value)


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("7", 7),
        ("999999", 3600),
        ("nonsense", 0),
        ("-5", 0),
    ],
)
def test_retry_after_is_understood(told: str, wait: float) -> None:
    answer = Answer(b"", 429, {"Retry-After": told})
    with serving(lambda *_: answer) as server, pytest.raises(SourceSilent) as silence:
        read_all(prometheus(server), NOON, at(5))
    assert silence.value.retry_after == wait


SAMPLES = "query processing would load too many samples into memory in query execution"
RESOLUTION = "exceeded maximum resolution of 11,000 points per timeseries"


def refusing(reason: str, status: int = 422) -> Answer:
    """As Prometheus refuses a query."""
    return Answer(orjson.dumps({"status": "error", "errorType": "execution", "error": reason}), status)


@pytest.mark.parametrize("status", [400, 422, 500])
def test_the_reason_of_a_refusal_is_told_cut_to_a_line(status: int) -> None:
    reason = "parse error:\n" + "x" * 900
    with serving(lambda *_: refusing(reason, status)) as server, pytest.raises(SourceSilent) as silence:
        read_all(prometheus(server), NOON, at(5))
    assert f"answers {status}. It says: parse error: xxx" in str(silence.value)
    assert len(str(silence.value)) < 450
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "refusal",
    [refusing(SAMPLES), refusing(RESOLUTION, 400), refusing("query timed out", 503), Answer(b"", 413)],
    ids=["samples", "resolution", "timeout", "too large"],
)
def test_what_is_too_much_at_once_is_asked_for_by_halves_and_then_by_more_again(refusal: Answer) -> None:
    told, times = Told(), [at(m / 2) for m in range(1, 80)]
    told.add(SM, [(t, "0.5") for t in times])
    widths: list[float] = []

    def script(path: str, query: dict[str, str]) -> Answer:
        if SM in query["query"] and "[" in query["query"]:
            widths.append(int(query["query"].partition("[")[2].removesuffix("ms]")) / 60_000)
            if widths[-1] > 4:
                return refusal
        return told(path, query)

    with serving(script) as server:
        found = read_all(prometheus(server), NOON, at(40))
    assert [t for t, _ in rows(found)] == times
    assert widths[:6] == pytest.approx([10, 5, 2.5, 3.125, 3.90625, 4.8828], abs=1e-4)
    assert max(widths[3:]) <= 5


def test_what_refuses_the_least_time_too_is_silent_with_its_reason_and_what_to_raise() -> None:
    with serving(lambda *_: refusing(SAMPLES)) as server, pytest.raises(SourceSilent) as silence:
        prometheus(server)._chunk(NOON, at(5))
    assert silence.value.is_too_much

    def script(path: str, query: dict[str, str]) -> Answer:
        return success() if query["query"].startswith("count by") else refusing(SAMPLES)

    with serving(script) as server, pytest.raises(SourceSilent, match=r"even 15 s at once.*max-samples"):
        read_all(prometheus(server), NOON, at(5))
    assert len(server.asked) == 7


def test_two_containers_of_one_pod_on_one_gpu_are_no_second_exporter() -> None:
    told, pod = Told(), {"exported_pod": "train-0", "exported_namespace": "vision"}
    for name, value in ((SM, "0.5"), (USED, "1000")):
        told.add(name, [(at(m), value) for m in (1, 2)], exported_container="main", **pod)
        told.add(name, [(at(m), value) for m in (1, 2, 3)], exported_container="logger", **pod)
    with serving(told) as server:
        (found,) = read_all(prometheus(server), NOON, at(5))
    assert found.troubles == []
    assert {reading.device.pods for reading in found.every()} == {(("vision", "train-0"),)}
    assert rows([found]) == [(at(m), {"sm_active": 500_000, "memory_used_mib": 1000}) for m in (1, 2, 3)]


def test_retry_after_may_be_a_date() -> None:
    told = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    answer = Answer(b"", 503, {"Retry-After": told})
    with serving(lambda *_: answer) as server, pytest.raises(SourceSilent) as silence:
        read_all(prometheus(server), NOON, at(5))
    assert 560 < silence.value.retry_after <= 600


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.metering.telemetry.rules.sources.web.MOST_BYTES", 1000)
    with serving(lambda *_: Answer(b"x" * 5000)) as server, pytest.raises(SourceSilent, match="more than"):
        read_all(prometheus(server), NOON, at(5))


def test_nobody_there_is_silence() -> None:
    with serving(Told()) as server:
        pass
    with pytest.raises(SourceSilent, match="does not answer"):
        read_all(prometheus(server), NOON, at(5))


def flood(count: int) -> bytes:
    """What Prometheus answers where a label has so many values, as it writes it."""
    one = b'{"metric":{"UUID":"GPU-%d","Hostname":"n"},"values":[[%d,"1"]]}'
    ts = int(at(1).timestamp())
    found = b",".join(one % (number, ts) for number in range(count))
    return b'{"status":"success","data":{"resultType":"matrix","result":[%b]}}' % found


def answering(body: bytes) -> Callable[[str, dict[str, str]], Answer]:
    return lambda _, query: Answer(body) if query["query"].startswith(SM) else success()


@pytest.mark.parametrize(
    ("count", "words"),
    [(800_000, f"answers 800000 series of {SM} at once"), (1_000_000, "sends more than 64 MiB at once")],
)
def test_a_million_label_values_are_refused_in_bounded_time_and_memory(count: int, words: str) -> None:
    with serving(answering(flood(count))) as server:
        source = prometheus(server)
        tracemalloc.start()
        with pytest.raises(SourceSilent, match=words):
            read_all(source, NOON, at(5))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * MOST_BYTES


def test_of_a_node_with_more_devices_than_there_can_be_nothing_is_believed() -> None:
    with serving(answering(flood(20_000))) as server:
        began = process_time()
        (batch,) = read_all(prometheus(server), NOON, at(5))
    assert process_time() - began < patient(5)
    assert (batch.count, [each.kind for each in batch.troubles]) == (0, ["too-much"])
