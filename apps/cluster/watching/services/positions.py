"""How far each kind of a cluster was read, so that its watch goes on from there."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import CharField, UUIDField
from django.utils import timezone

from apps.cluster.models import Cluster, WatchPosition
from apps.prepared import PreparedUpdate


def listed(cluster: Cluster, kind: str, version: str, *, now: datetime) -> None:
    """A list of the kind was read to its end."""
    defaults = {"resource_version": version, "listed_at": now}
    WatchPosition.objects.update_or_create(cluster=cluster, kind=kind, defaults=defaults)


def move(cluster: Cluster, versions: Mapping[str, str]) -> None:
    """Events of these kinds were read up to these versions."""
    for kind, version in sorted(versions.items()):
        _MOVED(cluster.pk, kind, version)


def known(cluster: Cluster, *, not_before: timedelta) -> dict[str, str]:
    """Where each kind's watch may resume; a kind whose last list is older than that is listed again."""
    rows = WatchPosition.objects.filter(cluster=cluster, listed_at__gt=timezone.now() - not_before)
    return dict(rows.values_list("kind", "resource_version"))


_MOVED = PreparedUpdate(
    lambda cluster, kind, version: (
        WatchPosition.objects.filter(cluster=cluster, kind=kind),
        {"resource_version": version},
    ),
    UUIDField(),
    CharField(),
    CharField(),
)
