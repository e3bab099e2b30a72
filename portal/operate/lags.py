"""How old what the product knows of each cluster is: its watch, its telemetry, its ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Max

from apps.cluster.models import Cluster
from apps.cluster.watching.services.capabilities import NEEDED
from apps.metering.models import CollectorPosition, RollPosition
from apps.metering.telemetry.services import polling

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Lag:
    """One cluster, in seconds from now back: to its last answer (`answered`: whether it ever did), to
    where its telemetry is read (None: it has no source; `heard`: whether it ever was) and to where its ledger
    is rolled up (None: nothing is). What never was counts from when the cluster was registered. `lacks`
    counts pieces that it lacks and work needs.
    """

    cluster: str
    name: str
    answered: bool
    seen: float
    heard: bool
    telemetry: float | None
    ledger: float | None
    lacks: int


def read(now: datetime) -> list[Lag]:
    """Every cluster by its slug, in three statements however many there are."""
    sources = CollectorPosition.objects.values("cluster_id", "source").annotate(until=Max("until"))
    until = {(row["cluster_id"], row["source"]): row["until"] for row in sources.order_by()}
    rolled = dict(RollPosition.objects.values_list("cluster_id", "until"))
    return [_lag(cluster, until, rolled.get(cluster.pk), now) for cluster in Cluster.objects.order_by("slug")]


def _lag(
    cluster: Cluster, until: Mapping[tuple[UUID, str], datetime], rolled: datetime | None, now: datetime
) -> Lag:
    source = polling.source_of(cluster)
    read_to = until.get((cluster.pk, source)) if source else None
    return Lag(
        cluster=cluster.slug,
        name=cluster.name,
        answered=cluster.last_seen_at is not None,
        seen=_age(cluster.last_seen_at or cluster.created_at, now),
        heard=read_to is not None,
        telemetry=_age(max(read_to or _NEVER, cluster.created_at), now) if source else None,
        ledger=None if rolled is None else _age(rolled, now),
        lacks=sum(piece["name"] in NEEDED and not piece["available"] for piece in cluster.capabilities),
    )


def _age(at: datetime, now: datetime) -> float:
    return max(0.0, (now - at).total_seconds())
