"""One round of reading: each cluster's source from where it was left, batch by batch, within its time."""

import time
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from apps.cluster.errors import Unreachable
from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from apps.metering.models import CollectorPosition
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.ahead import ahead
from apps.metering.telemetry.rules.sources.dcgm import Exporters
from apps.metering.telemetry.rules.sources.naming import LabelNames
from apps.metering.telemetry.rules.sources.prometheus import Believed, Prometheus
from apps.metering.telemetry.rules.sources.reading import Source as Port
from apps.metering.telemetry.rules.sources.reading import SourceSilent, Trouble
from apps.metering.telemetry.rules.sources.web import Access, Web
from apps.metering.telemetry.services import source_health
from apps.metering.telemetry.services.ingest import Ingested, store
from apps.metering.telemetry.services.issues import report, resolve

PATIENCE_SECONDS = 45.0
"""A long gap is read back over several rounds; a round must end before its task's time limit."""
ROUND_KINDS = (
    "source-silent", "exporter-silent", "malformed", "repeated-series", "no-device", "out-of-range",
    "too-much", "two-homes", "foreign-series", "clock-lies", "clock-ahead", "clock-old",
    "unknown-host",
)  # fmt: skip
"""What every round looks for; what it no longer finds is resolved."""


def read_telemetry(cluster: Cluster, *, now: datetime) -> Ingested:
    """Read what is new of a cluster's telemetry and store it.

    RULE: a source that is silent, busy or broken loses nothing: the next round goes on from the position of
    the last stored batch, not before the source asked to be left alone.
    """
    kind = source_of(cluster)
    if kind is None:
        return Ingested()
    position = CollectorPosition.objects.filter(cluster=cluster, source=kind, shard="").first()
    if position is not None and position.not_before is not None and now < position.not_before:
        return Ingested()
    since = max(position.until if position else _first(now), now - _lookback())
    try:
        total, found = _read(cluster, kind, since, now)
    except SourceSilent as silence:
        _leave_alone(cluster, kind, silence, now=now)
        return Ingested()
    if found is not None:
        resolve(cluster, ROUND_KINDS, still=found, now=now)
    return total


def source_of(cluster: Cluster) -> Source | None:
    """Where the telemetry of a cluster comes from; None: nobody said."""
    chosen, url = settings.CONFIG.telemetry_source, settings.CONFIG.telemetry_url
    if chosen == "auto":
        return Source.DCGM if cluster.is_simulated else Source.PROMETHEUS if url else None
    return None if chosen == "off" else Source(chosen)


def open_source(cluster: Cluster, kind: Source) -> Port:
    """The source of a cluster as configured; raises `SourceSilent` where that cannot be.

    The simulated cluster's exporters are at its own API server, known by the kubeconfig's authority.
    """
    config = settings.CONFIG
    url = config.telemetry_url.replace("{cluster}", cluster.slug)
    try:
        authority = Path(config.telemetry_ca_file).read_text() if config.telemetry_ca_file else ""
        if not url and cluster.is_simulated and kind is not Source.PROMETHEUS:
            endpoint = open_gateway(cluster).endpoint()
            url, authority = f"{endpoint.server}/fleet/targets", endpoint.authority.decode()
    except (OSError, Unreachable) as error:
        raise SourceSilent(f"The telemetry of {cluster.slug} cannot be asked for: {error}") from error
    if not url:
        raise SourceSilent("Set ALLOTMENT_TELEMETRY_URL, or ALLOTMENT_TELEMETRY_SOURCE=off.")
    return _opened(kind, url, Access(authority, config.telemetry_token_file))


@lru_cache(maxsize=16)
def _opened(kind: Source, url: str, access: Access) -> Port:
    """Kept by this process: connections, and what the texts of the exporters looked like."""
    config = settings.CONFIG
    step = timedelta(seconds=config.telemetry_step_seconds)
    pod, namespace = config.telemetry_pod_label, config.telemetry_namespace_label
    if kind is Source.PROMETHEUS:
        names = LabelNames(pod or "exported_pod", namespace or "exported_namespace")
        believed = Believed(config.telemetry_job, config.telemetry_namespace, names)
        return Prometheus(url, Web(access), believed, step)
    names = LabelNames(pod or "pod", namespace or "namespace")
    return Exporters(url, Web(access), step, clock=timezone.now, names=names)


def _read(
    cluster: Cluster, kind: Source, since: datetime, now: datetime
) -> tuple[Ingested, frozenset[tuple[str, str]] | None]:
    """What was stored, and what was wrong; None where there was nothing to read yet."""
    ends, total, is_read = time.monotonic() + PATIENCE_SECONDS, Ingested(), False
    batches = ahead(open_source(cluster, kind).read(since, now))
    try:
        for batch in batches:
            total, is_read = total + store(cluster, batch, source=kind, now=now), True
            if time.monotonic() > ends:
                break
    finally:
        batches.close()
    return total, total.complaints if is_read else None


def _leave_alone(cluster: Cluster, kind: Source, silence: SourceSilent, *, now: datetime) -> None:
    words = (
        f"{silence} Until it answers, what the GPUs do is unknown, and nothing is decided on it. Compare"
        " ALLOTMENT_TELEMETRY_URL, its authority and its token with what answers there."
    )
    report(cluster, [Trouble("source-silent", "", words)], now=now)
    later = now + timedelta(seconds=silence.retry_after) if silence.retry_after else None
    CollectorPosition.objects.update_or_create(
        cluster=cluster, source=kind, shard="",
        defaults={"not_before": later, "updated_at": now}, create_defaults={
            "until": _first(now), "not_before": later, "updated_at": now,
        },
    )  # fmt: skip


def _first(now: datetime) -> datetime:
    return now - _lookback()


def _lookback() -> timedelta:
    return timedelta(hours=settings.CONFIG.telemetry_lookback_hours)


def watch_telemetry(cluster: Cluster, *, now: datetime) -> None:
    """Look for what no single batch can show: gaps, frozen exporters, fields that are switched off."""
    if source_of(cluster) is not None:
        source_health.watch(cluster, now=now)
