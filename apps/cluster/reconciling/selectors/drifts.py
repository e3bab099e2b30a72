"""Reading the book of drift and the checks of clusters. Never calls a cluster."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, F, Min, QuerySet

from apps.cluster.mirror.selectors.inventory import Viewer
from apps.cluster.models import Cluster, Drift, DriftCheck
from apps.web.requests.lookups import by_id


@dataclass(frozen=True)
class Look:
    """How far one cluster is known: whether it answers, when it was last compared, what runs now."""

    cluster: Cluster
    check: DriftCheck
    open: int

    @property
    def is_silent(self) -> bool:
        """What differs there now is not known."""
        return self.cluster.phase == Cluster.Phase.SILENT


def drifts_for(viewer: Viewer) -> QuerySet[Drift]:
    """What differs and what was put back: for platform engineers and auditors."""
    rows = Drift.objects.select_related("cluster")
    return rows if viewer.sees_everything else rows.none()


def drift_for(viewer: Viewer, key: str | UUID) -> Drift:
    """One line by id; raises NotFound."""
    return by_id(drifts_for(viewer), key)


def open_of(rows: QuerySet[Drift]) -> QuerySet[Drift]:
    """What differs now."""
    return rows.filter(healed_at=None)


def to_repair(rows: QuerySet[Drift], tenant: str) -> QuerySet[Drift]:
    """What differs of a tenant, by its slug; first what nobody has asked for yet: so who asks again for more
    than a repair takes gets the next ones.
    """
    asked = F("asked_at").asc(nulls_first=True)
    return open_of(rows).filter(tenant=tenant).order_by(asked, "kind", "name", "pk")


def standing(viewer: Viewer) -> tuple[int, datetime | None]:
    """How many objects differ, and since when the oldest."""
    found = open_of(drifts_for(viewer)).order_by().aggregate(n=Count("pk"), since=Min("found_at"))
    return found["n"], found["since"]


def looks_for(viewer: Viewer) -> list[Look]:
    """Every cluster, by slug."""
    if not viewer.sees_everything:
        return []
    checks = {row.cluster_id: row for row in DriftCheck.objects.all()}
    counts = open_of(Drift.objects.order_by()).values_list("cluster").annotate(n=Count("pk"))
    differing = dict(counts)
    return [
        look_at(row, checks.get(row.pk), differing.get(row.pk, 0)) for row in Cluster.objects.order_by("slug")
    ]


def look_at(cluster: Cluster, check: DriftCheck | None, differing: int) -> Look:
    """One cluster; before its first check with an empty one."""
    return Look(cluster, check or DriftCheck(cluster=cluster), differing)
