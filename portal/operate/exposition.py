"""`/metrics`: the whole installation as Prometheus reads it, the same from every web process.

RULE: a scrape asks the database a fixed number of statements (`STATEMENTS`) and Redis three times, however
much there is; nothing is computed in it that takes long. Labels are clusters, kinds of rows, tasks, routes
and states: none is a tenant's, a person's or a workload's, so that their number is bounded by us.

| value | where it lives | who writes it |
| counters, histograms | Redis, `telling.TOTALS` | every process, every 5 s |
| processes, streams, last runs, queues | Redis | every process; the broker |
| clusters, telemetry, ledger, sweep | the database's own rows | watcher and workers |
| self-checks | `web.SelfCheck` | workers, every 6 hours |
"""

import hmac
from collections.abc import Iterator
from datetime import datetime

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import Metric
from redis.exceptions import RedisError

from apps.cluster.reconciling.services import frame, sweep, wake
from apps.cluster.watching.services import ingest
from apps.web import self_checks
from apps.web.stores import telling
from apps.web.stores.telling import OURS, Told
from portal.operate import certificates, lags, queues
from portal.operate.service_checks import KINDS
from portal.operate.versions import VERSION

COUNTED_ELSEWHERE = (frame.RUNS, frame.SECONDS, wake.LOST_HINTS, ingest.EVENTS, ingest.RETRIES)
"""Declared where they are counted; naming them here makes a web process know them all."""
STATEMENTS = 5 + len(sweep.ROWS)
MOST_DUE = 10_000
GAUGES = {
    "build_info": "1, with the version of the product.",
    "redis_up": "Whether Redis answers this scrape.",
    "database_up": "Whether the database answers this scrape.",
    "database_full": "Processes that met a full disk of the database, and no room since.",
    "processes": "Processes that told within 30 s that they live, by kind as in the Procfile.",
    "streams": "Live streams (pages, events, followed logs) that are open in all web processes.",
    "queue_length": "Tasks that wait for a worker: urgent are those of people, later those of the cluster.",
    "queue_lag_seconds": "For how long the oldest of them has waited.",
    "task_last_success_timestamp_seconds": "When a task last succeeded, in seconds since 1970.",
    "cluster_seen_seconds": "Since the cluster last answered its watcher.",
    "cluster_lacks": "Pieces that the cluster lacks and work needs.",
    "cluster_certificate_due_timestamp_seconds": (
        "From when on the client certificate of its kubeconfig is to be renewed, in seconds since 1970."
    ),
    "telemetry_lag_seconds": "From now back to where a cluster's telemetry is read.",
    "ledger_lag_seconds": "From now back to where a cluster's ledger is rolled up.",
    "sweep_due": "Rows that are due for a reconcile, by kind; 10,000 at most.",
    "self_check_breaches": "What the last check of the audit record, or of a ledger's day, found broken.",
    "self_check_timestamp_seconds": "When that check was made, in seconds since 1970.",
}
"""All gauges; each is told of by HELP and TYPE in every scrape, whether it has values now or not."""


def may_read(authorization: str) -> bool:
    """Whether a request brings the token of `ALLOTMENT_METRICS_TOKEN`; where none is set nobody does."""
    token = settings.CONFIG.metrics_token
    return bool(token) and hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


def text(now: datetime) -> bytes:
    """The exposition. What cannot be read now is left out, and `redis_up` or `database_up` is 0."""
    return generate_latest(_Collected(now))


class _Collected:
    """What `generate_latest` asks for."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._gauges = {name: Metric(OURS + name, words, "gauge") for name, words in GAUGES.items()}

    def collect(self) -> Iterator[Metric]:
        """Counters and histograms, then every gauge."""
        self._set("build_info", 1.0, version=VERSION)
        yield from counters(self._of_redis())
        self._of_database()
        yield from self._gauges.values()

    def _set(self, name: str, value: float, **labels: str) -> None:
        self._gauges[name].add_sample(OURS + name, labels, value)

    def _of_redis(self) -> dict[str, float]:
        try:
            told, waiting = telling.read(), queues.read()
        except RedisError:
            self._set("redis_up", 0.0)
            return {}
        self._set("redis_up", 1.0)
        for kind in KINDS:
            self._set("processes", told.alive(kind), kind=kind)
        self._set("streams", _sum(told, "streams"))
        self._set("database_full", _sum(told, telling.FULL))
        for task, at in sorted(told.ran.items()):
            self._set("task_last_success_timestamp_seconds", at, task=task)
        for queue in waiting:
            self._set("queue_length", queue.length, queue=queue.name)
            self._set("queue_lag_seconds", queue.lag, queue=queue.name)
        return dict(told.totals)

    def _of_database(self) -> None:
        try:
            self._clusters()
            for owner, label in sweep.ROWS.items():
                due = sweep.backlog(apps.get_model(label), self._now, MOST_DUE)
                self._set("sweep_due", due, owner=owner)
            for check in self_checks.last():
                self._set("self_check_breaches", check.breaches, check=check.name)
                at = check.checked_at.timestamp()
                self._set("self_check_timestamp_seconds", at, check=check.name)
        except DatabaseError:
            self._set("database_up", 0.0)
        else:
            self._set("database_up", 1.0)

    def _clusters(self) -> None:
        for lag in lags.read(self._now):
            self._set("cluster_lacks", lag.lacks, cluster=lag.cluster)
            self._set("cluster_seen_seconds", lag.seen, cluster=lag.cluster)
            if lag.telemetry is not None:
                self._set("telemetry_lag_seconds", lag.telemetry, cluster=lag.cluster)
            if lag.ledger is not None:
                self._set("ledger_lag_seconds", lag.ledger, cluster=lag.cluster)
        for cluster, due in certificates.due():
            self._set("cluster_certificate_due_timestamp_seconds", due.timestamp(), cluster=cluster)


def counters(totals: dict[str, float]) -> Iterator[Metric]:
    """Every counter and histogram of ours with the sums of all processes; one that has none yet is 0."""
    values = dict.fromkeys(telling.counted(), 0.0) | totals
    for family in REGISTRY.collect():
        if not family.name.startswith(OURS) or family.type not in ("counter", "histogram"):
            continue
        metric = Metric(family.name, family.documentation, family.type)
        for name, labels, value in _samples(family, values):
            metric.add_sample(name, labels, value)
        yield metric


def _samples(family: Metric, values: dict[str, float]) -> list[tuple[str, dict[str, str], float]]:
    ends = ("_total",) if family.type == "counter" else ("_bucket", "_count", "_sum")
    names = {f"{family.name}{end}" for end in ends}
    found = []
    for field, value in values.items():
        name, labels = telling.sample_of(field)
        if name in names:
            found.append((name, labels, value))
    return sorted(found, key=lambda each: (_without_bound(each[1]), each[0], _bound(each[1])))


def _without_bound(labels: dict[str, str]) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in labels.items() if name != "le")


def _bound(labels: dict[str, str]) -> float:
    return float(labels.get("le", "0").replace("+Inf", "inf"))


def _sum(told: Told, gauge: str) -> float:
    return sum(part.gauges.get(gauge, 0.0) for part in told.parts)
