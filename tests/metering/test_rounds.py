"""Rounds of reading: from where the last one ended, and nothing lost when a source breaks off."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.buckets import MILLION
from apps.metering.ledger.services.verifying import verify
from apps.metering.models import Bucket, CollectorPosition, Sample, TelemetryIssue
from apps.metering.telemetry.rules.sources.prometheus import SETTLE
from apps.metering.telemetry.services import polling
from tests.conftest import Cast
from tests.metering.books import Books
from tests.metering.scripted import (
    GPU,
    NOON,
    SM,
    STEP,
    Answer,
    Told,
    at,
    serving,
    telemetry_settings,
    text,
)


@pytest.fixture
def configured(settings: Any) -> Iterator[Any]:
    """Sets settings of telemetry."""
    with telemetry_settings(settings) as configure:
        yield configure


def told_at(*minutes: float) -> Told:
    told = Told()
    told.add(SM, [(at(m), "0.5") for m in minutes])
    return told


def position() -> CollectorPosition:
    return CollectorPosition.objects.get()


@pytest.mark.django_db
def test_a_round_goes_on_where_the_last_one_ended(cluster: Cluster, configured: Any) -> None:
    told = told_at(-30, 1, 2, 3)
    with serving(told) as server:
        configured(source="prometheus", url=server.url, lookback_hours=1)
        assert polling.read_telemetry(cluster, now=at(2.5)).stored == 3
        assert position().until == at(2.5) - SETTLE
        told.add(SM, [(at(4), "0.25")])
        assert polling.read_telemetry(cluster, now=at(5)).stored == 2
        assert polling.read_telemetry(cluster, now=at(6)).stored == 0
    assert Sample.objects.count() == 5
    assert not TelemetryIssue.objects.exists()


@pytest.mark.django_db
def test_a_source_that_breaks_off_loses_nothing(cluster: Cluster, configured: Any) -> None:
    told, broken = told_at(*range(1, 60)), [True]

    def script(path: str, query: dict[str, str]) -> Answer:
        late = float(query["time"]) > at(25).timestamp() and "[" in query["query"]
        return Answer(b"", 500) if broken[0] and late else told(path, query)

    with serving(script) as server:
        configured(source="prometheus", url=server.url, lookback_hours=1)
        assert polling.read_telemetry(cluster, now=at(60)).stored == 0
        issue = TelemetryIssue.objects.get()
        assert (issue.kind, issue.resolved_at) == ("source-silent", None)
        stored = Sample.objects.count()
        assert 0 < stored < 30
        broken[0] = False
        polling.read_telemetry(cluster, now=at(60.5))
    assert Sample.objects.count() == 59
    assert TelemetryIssue.objects.get().resolved_at == at(60.5)


@pytest.mark.django_db
def test_a_gap_of_ten_hours_is_unknown_and_told_of_and_read_once_the_source_is_back(
    cast: Cast, configured: Any
) -> None:
    """The ledger balances all the time: what nobody saw is held, not idle."""
    books, told, down = Books(cast), told_at(*(half / 2 for half in range(1, 22 * 60))), [False]
    held = books.hold(books.whole(GPU, NOON), NOON)

    def minutes(name: str) -> float:
        found = Bucket.objects.filter(level=300, allocation=held).aggregate(total=Sum(name))
        return float((found["total"] or 0) / MILLION / 60)

    with serving(lambda *asked: Answer(b"", 503) if down[0] else told(*asked)) as server:
        configured(source="prometheus", url=server.url, lookback_hours=12)
        polling.read_telemetry(books.cluster, now=at(30))
        down[0] = True
        polling.read_telemetry(books.cluster, now=at(621))
        books.roll(at(621))
        assert (minutes("held_us"), minutes("seen_us"), minutes("idle")) == (620, 29.5, 0)
        assert TelemetryIssue.objects.get(resolved_at=None).kind == "source-silent"
        assert verify(books.cluster).flaws == []
        down[0] = False
        polling.read_telemetry(books.cluster, now=at(656))
        books.roll(at(656))
    assert (minutes("held_us"), minutes("seen_us")) == (655, 655)
    assert not TelemetryIssue.objects.filter(resolved_at=None).exists()
    assert verify(books.cluster).flaws == []


@pytest.mark.django_db
def test_a_source_that_asks_for_patience_is_left_alone(cluster: Cluster, configured: Any) -> None:
    with serving(lambda *_: Answer(b"", 429, {"Retry-After": "90"})) as server:
        configured(source="prometheus", url=server.url)
        polling.read_telemetry(cluster, now=NOON)
        assert len(server.asked) == 1
        polling.read_telemetry(cluster, now=at(1))
        assert len(server.asked) == 1
        polling.read_telemetry(cluster, now=at(2))
        assert len(server.asked) == 2


@pytest.mark.django_db
def test_nothing_is_read_where_nobody_said_from_where(cluster: Cluster, configured: Any) -> None:
    assert polling.read_telemetry(cluster, now=NOON).stored == 0
    configured(source="prometheus", url="")
    polling.read_telemetry(cluster, now=NOON)
    assert "ALLOTMENT_TELEMETRY_URL" in TelemetryIssue.objects.get().message


@pytest.mark.django_db
def test_what_an_exporter_says_wrong_is_told_until_it_stops(cluster: Cluster, configured: Any) -> None:
    bodies = [text("a") + b"rubbish\n", text("a") + b"rubbish\n", text("a")]
    with serving(lambda *_: Answer(bodies[0])) as server:
        configured(source="dcgm", url=f"{server.url}/a/metrics")
        start = timezone.now()
        for number in range(3):
            polling.read_telemetry(cluster, now=start + number * STEP)
            CollectorPosition.objects.update(until=start + number * STEP)
            issue = TelemetryIssue.objects.get()
            assert (issue.resolved_at is None) == (number < 2)
            bodies.pop(0)
    assert (issue.kind, issue.count, issue.kept_aside) == ("malformed", 2, "rubbish")
