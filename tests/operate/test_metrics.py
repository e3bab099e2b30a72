"""`/metrics`: who may read it, what is in it, what it costs; every process's counts come together."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import current_app
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries, Settings

from apps.audit import periodic as audit_periodic
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import frame
from apps.metering import periodic as metering_periodic
from apps.metering.models import CollectorPosition, RollPosition
from apps.metering.specs import Source
from apps.web import self_checks
from apps.web.models import SelfCheck
from apps.web.stores import outage, telling
from apps.web.stores.telling import Teller
from portal.operate import exposition
from portal.operate.measuring import route_class
from tests import database
from tests.conftest import Cast
from tests.factories import NOW, make_cluster, make_workload
from tests.patience import within

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-the-tests-own"
pytestmark = [pytest.mark.django_db]


@pytest.fixture
def scraped(settings: Settings, broker: str) -> Iterator[None]:
    """The installation has a token and an empty Redis."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"metrics_token": TOKEN, "redis_url": broker})
    redis.Redis.from_url(broker).flushall()
    yield
    redis.Redis.from_url(broker).flushall()


def ask(token: str = TOKEN) -> Any:
    return Client(headers={"Authorization": f"Bearer {token}"}).get("/metrics")


def values(name: str, **labels: str) -> list[float]:
    """The samples of this name that have at least these labels."""
    answer = ask()
    assert answer.status_code == 200
    return [
        sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
        if sample.name == f"allotment_{name}" and labels.items() <= sample.labels.items()
    ]


def test_it_is_there_for_the_token_alone(scraped: None, settings: Settings) -> None:
    assert ask().headers["Content-Type"].startswith("text/plain")
    hidden = [ask("another-token-of-some-length"), ask(""), ask("é"), Client().get("/metrics")]
    settings.CONFIG = settings.CONFIG.model_copy(update={"metrics_token": ""})
    hidden += [ask(""), ask()]
    assert {answer.status_code for answer in hidden} == {404}


def test_a_short_token_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from portal import config

    monkeypatch.setenv("ALLOTMENT_METRICS_TOKEN", "short")
    with pytest.raises(config.ConfigError, match="ALLOTMENT_METRICS_TOKEN"):
        config.load()


@pytest.mark.both_databases
def test_a_scrape_costs_the_same_however_much_there_is(
    scraped: None, cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    now = timezone.now()
    for number in range(5):
        cluster = make_cluster(f"c{number}")
        RollPosition.objects.create(cluster=cluster, since=now, until=now)
        make_workload(cast.vision, cast.rosa, cast.offer, slug=f"nb-{number}")
        Teller("worker").tell()
    with django_assert_num_queries(exposition.STATEMENTS):
        ask()


def test_requests_are_counted_by_class_and_status(scraped: None, cast: Cast, settings: Settings) -> None:
    teller = Teller("web", {"streams": lambda: 3.0}, told=telling.counted())
    browser = Client()
    browser.get("/healthz")
    browser.get("/no-such-page/")
    browser.get("/api/v1/workloads")
    teller.tell()
    assert values("requests_total", route="health", status="200") == [1.0]
    assert values("requests_total", route="page", status="404") == [1.0]
    assert values("requests_total", route="api", status="401") == [1.0]
    assert values("request_seconds_count", route="api") == [1.0]
    assert values("request_seconds_bucket", route="api", le="+Inf") == [1.0]
    assert values("request_seconds_sum", route="api")[0] > 0
    assert values("processes", kind="web") == [1.0]
    assert values("processes", kind="worker") == [0.0]
    assert values("streams") == [3.0]


@pytest.mark.parametrize(
    ("path", "how", "word"),
    [
        ("/api/v1/workloads", set(), "api"),
        ("/api/v1/events", {"stream"}, "stream"),
        ("/static/x.css", set(), "static"),
        ("/console/", set(), "page"),
        ("/console/", {"part"}, "part"),
        ("/api/v1/workloads", {"part"}, "api"),
        ("/metrics", set(), "metrics"),
    ],
)
def test_routes_are_of_few_classes(path: str, how: set[str], word: str) -> None:
    assert route_class(path, is_part="part" in how, is_stream="stream" in how) == word


@pytest.mark.both_databases
def test_what_the_database_knows_is_told_by_cluster(scraped: None, cast: Cast) -> None:
    now = timezone.now()
    lacking = {"name": "kueue", "available": False, "version": None, "message": ""}
    seen = {"last_seen_at": now - timedelta(minutes=5), "created_at": now - timedelta(days=1)}
    Cluster.objects.update(**seen, capabilities=[lacking], is_simulated=True)
    north = Cluster.objects.get()
    RollPosition.objects.create(cluster=north, since=NOW, until=now - timedelta(minutes=10))
    CollectorPosition.objects.create(
        cluster=north, source=Source.DCGM, shard="", until=now - timedelta(minutes=20), updated_at=now
    )
    make_workload(cast.vision, cast.rosa, cast.offer)
    assert values("cluster_seen_seconds", cluster="north")[0] == pytest.approx(300, abs=60)
    assert values("ledger_lag_seconds", cluster="north")[0] == pytest.approx(600, abs=60)
    assert values("telemetry_lag_seconds", cluster="north")[0] == pytest.approx(1200, abs=60)
    assert values("cluster_lacks", cluster="north") == [1.0]
    assert values("sweep_due", owner="workload") == [1.0]
    assert values("database_up") == [1.0]


@pytest.mark.both_databases
def test_the_product_checks_its_books_and_a_scrape_reads_the_result(scraped: None, cast: Cast) -> None:
    audit_periodic.check_chains()
    metering_periodic.check_ledger()
    assert values("self_check_breaches", check="audit") == [0.0]
    assert values("self_check_breaches", check="ledger:north") == [0.0]
    assert values("self_check_timestamp_seconds", check="audit")[0] == pytest.approx(time.time(), abs=60)
    Cluster.objects.update(slug="moved")
    metering_periodic.check_ledger()
    assert values("self_check_breaches", check="ledger:north") == [], "it is not there any more"
    assert values("self_check_breaches", check="ledger:moved") == [0.0]
    make_event()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE audit_auditevent SET actor = 'somebody else'")
    audit_periodic.check_chains()
    assert values("self_check_breaches", check="audit") == [0.0], "it is not due yet"
    SelfCheck.objects.update(checked_at=timezone.now() - self_checks.EVERY)
    audit_periodic.check_chains()
    assert values("self_check_breaches", check="audit") == [1.0]


def make_event() -> AuditEvent:
    from apps.accounts.specs import system_actor
    from apps.audit import services as audit

    return audit.record(system_actor("test"), "cluster.update", Cluster.objects.get(), now=timezone.now())


def test_a_reconcile_is_counted_with_its_length(scraped: None, cast: Cast) -> None:
    teller = Teller("", told=telling.counted())
    frame.RUNS.labels("workload", "done").inc()
    with frame.SECONDS.labels("workload").time():
        pass
    teller.tell()
    assert values("reconciles_total", owner="workload", result="done") == [1.0]
    assert values("reconcile_seconds_count", owner="workload") == [1.0]


def test_a_process_that_met_a_full_disk_tells_it_until_there_is_room(
    scraped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, teller = outage.Outages("the database"), Teller("worker")
    monkeypatch.setattr(outage, "room", room)
    teller.tell()
    assert values("database_full") == [0.0]
    room.note(OperationalError("no room"))
    teller.tell()
    assert values("database_full") == [1.0]
    room.over()
    teller.tell()
    assert values("database_full") == [0.0]


def test_without_redis_the_rest_is_told(settings: Settings, cast: Cast, no_broker: None) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"metrics_token": TOKEN})
    assert (values("redis_up"), values("database_up")) == ([0.0], [1.0])
    assert values("cluster_seen_seconds", cluster="north")


def test_without_the_database_the_rest_is_told(scraped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError

    monkeypatch.setattr(connection, "cursor", away)
    assert (values("redis_up"), values("database_up")) == ([1.0], [0.0])


def test_nobody_is_named(scraped: None, cast: Cast) -> None:
    make_workload(cast.vision, cast.rosa, cast.offer)
    exposed = ask().content.decode()
    for name in (cast.vision.slug, cast.rosa.username, "nb-ada", cast.offer.slug):
        assert f'"{name}"' not in exposed


@pytest.mark.programs
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the worker has a file of its own")
def test_a_real_worker_tells_what_it_did(scraped: None, broker: str, tmp_path: Path) -> None:
    shutil.copy(database.FOLDER / database.digest(), tmp_path / "allotment.sqlite3")
    environment = {**os.environ, "ALLOTMENT_HOME": str(tmp_path), "ALLOTMENT_REDIS_URL": broker}
    command = ["-m", "celery", "--quiet", "-A", "portal", "worker", "--concurrency", "1", "--without-gossip",
               "--without-mingle", "--loglevel", "error"]  # fmt: skip
    current_app.send_task("web.prune_idempotency_keys")
    with subprocess.Popen([sys.executable, *command], env=environment, cwd=ROOT) as worker:
        try:
            until = within(200)
            state = {"task": "web.prune_idempotency_keys", "state": "SUCCESS"}
            while not values("tasks_total", **state) and time.monotonic() < until:
                time.sleep(0.5)
            assert values("tasks_total", **state) == [1.0]
            assert values("task_wait_seconds_count") == [1.0]
            assert values("task_last_success_timestamp_seconds", task=state["task"])
            assert values("processes", kind="worker") == [1.0]
        finally:
            worker.terminate()
