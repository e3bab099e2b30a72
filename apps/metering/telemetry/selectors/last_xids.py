"""The last XID that telemetry told of each device, and since when. Reads only."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, Max, OuterRef, QuerySet, Subquery, UUIDField

from apps.cluster.models import Cluster
from apps.metering.models import Device, Sample
from apps.metering.telemetry.selectors.latest import WITHIN
from apps.prepared import Prepared

LATELY = timedelta(minutes=10)


def last_xids(cluster: Cluster, *, now: datetime) -> dict[str, dict[int, int]]:
    """By GPU, of its devices that told any lately: their number and the code, 0 for none."""
    found: dict[str, dict[int, int]] = {}
    for uuid, pk, xid in _LAST(cluster.pk, now - WITHIN, now - LATELY):
        found.setdefault(uuid, {})[pk] = xid
    return found


def _last(cluster: Any, within: Any, lately: Any) -> QuerySet[Device, Any]:
    known = Sample.objects.filter(device=OuterRef("pk"), ts__gt=lately, xid__isnull=False)
    devices = Device.objects.filter(cluster=cluster, last_seen_at__gt=within)
    rows = devices.annotate(xid=Subquery(known.order_by("-ts").values("xid")[:1]))
    return rows.exclude(xid=None).values_list("uuid", "pk", "xid")


_LAST = Prepared(_last, UUIDField(), DateTimeField(), DateTimeField())


def told_since(told: Mapping[int, int], code: int, *, now: datetime) -> datetime:
    """The beginning of the first sample with this code, of the devices that tell it last."""
    begins = now
    for device in (pk for pk, last in told.items() if last == code):
        samples = Sample.objects.filter(device=device, ts__gt=now - WITHIN, xid__isnull=False)
        other = samples.exclude(xid=code).aggregate(ts=Max("ts"))["ts"] or now - WITHIN
        first = samples.filter(ts__gt=other).order_by("ts").first()
        if first is not None:
            begins = min(begins, first.ts - timedelta(seconds=first.seconds))
    return begins
