"""The console's view of telemetry sources: what is wrong, what to do, what delivers. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Min, QuerySet
from django.http import QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.metering.models import CollectorPosition, Device, TelemetryIssue
from apps.metering.specs import TroubleKind
from apps.metering.telemetry.selectors import reported_issues
from apps.metering.telemetry.services import polling
from portal.pages.console.fleet.capacity import MOST_NEEDS, TOPICS
from portal.pages.parts.needs import Need

PARTS = frozenset({"telemetry"})
MOST = 100
RECENT = timedelta(minutes=10)
"""When a device was last heard of is kept to five minutes."""
REMEMBERED = timedelta(days=1)
LATE_STEPS = 6
BLIND = frozenset(
    {TroubleKind.SOURCE_SILENT, TroubleKind.EXPORTER_SILENT, TroubleKind.PROFILING_OFF, TroubleKind.FROZEN,
     TroubleKind.GAP}
)  # fmt: skip
"""With these kinds the use of GPUs is unknown; with the others something was refused and the rest is used."""
HARDWARE = frozenset({TroubleKind.DEAD_GPU, TroubleKind.MEMORY_LEFT})
"""What telemetry tells of GPUs: each has a line of its own among what needs a person."""


BAD = BLIND | {TroubleKind.DEAD_GPU}


@dataclass(frozen=True)
class Line:
    """An issue as the table shows it."""

    row: TelemetryIssue
    word: str
    icon: str
    tone: str


@dataclass(frozen=True)
class Delivery:
    """How one cluster's source delivers; of the devices `known` in the last day, `heard` were lately."""

    cluster: Cluster
    source: str
    until: datetime | None
    heard: int
    known: int
    word: str
    icon: str
    tone: str

    @property
    def is_well(self) -> bool:
        """Whether nothing is missing."""
        return self.tone == "good"


@dataclass(frozen=True)
class Summary:
    """The open issues: how many, the kinds of the oldest, since when."""

    count: int
    words: str
    since: datetime | None
    is_blind: bool


def page(actor: Actor, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """What is open, worst first; with `?show=all` what was, newest first. Raises NotFound for others."""
    found, every = reported_issues.issues_for(actor), query.get("show") == "all"
    live = found.filter(resolved_at=None)
    shown = found.order_by("-created_at", "-pk")[:MOST] if every else live.order_by("created_at", "pk")[:MOST]
    lines = [_line(row) for row in shown]
    sources = [_delivery(each, live, now) for each in clusters.clusters_for(actor)]
    return {
        "rows": lines if every else sorted(lines, key=lambda line: line.tone != "bad"),
        "count": live.count(),
        "every": every,
        "most": MOST,
        "sources": sources,
        "is_well": all(each.is_well for each in sources),
        "now": now,
        "live_topics": TOPICS,
    }


def summary(actor: Actor) -> Summary:
    """What the fleet page says of telemetry itself."""
    live = reported_issues.issues_for(actor).filter(resolved_at=None).exclude(kind__in=HARDWARE)
    by_kind = live.order_by().values_list("kind").annotate(count=Count("pk"), since=Min("created_at"))
    rows = [(TroubleKind(kind), count, since) for kind, count, since in by_kind]
    kinds = [kind for kind in TroubleKind if kind in {row[0] for row in rows}]
    count, since = sum(row[1] for row in rows), min((row[2] for row in rows), default=None)
    return Summary(count, ", ".join(kind.label for kind in kinds), since, not BLIND.isdisjoint(kinds))


def hardware_needs(actor: Actor) -> list[Need]:
    """What is wrong with GPUs, by node, and what to do; the first that came first."""
    live = reported_issues.issues_for(actor).filter(resolved_at=None, kind__in=HARDWARE)
    return [
        Need(
            f"{line.word} on {line.row.node}",
            line.row.message,
            line.icon,
            line.tone,
            reverse("console-node", args=[line.row.node]),
            line.row.created_at,
        )
        for line in map(_line, live.order_by("created_at", "pk")[:MOST_NEEDS])
    ]


def _line(row: TelemetryIssue) -> Line:
    kind = TroubleKind(row.kind)
    if row.resolved_at is not None:
        return Line(row, kind.label, "circle-check", "muted")
    return Line(row, kind.label, *(("octagon-alert", "bad") if kind in BAD else ("triangle-alert", "warn")))


def _delivery(cluster: Cluster, live: QuerySet[TelemetryIssue], now: datetime) -> Delivery:
    kind = polling.source_of(cluster)
    read = CollectorPosition.objects.filter(cluster=cluster, source=kind or "")
    until: datetime | None = read.aggregate(until=Max("until"))["until"]
    devices = Device.objects.filter(cluster=cluster, last_seen_at__gt=now - REMEMBERED)
    heard = devices.filter(last_seen_at__gt=now - RECENT).count()
    count = live.filter(cluster=cluster).count()
    late = timedelta(seconds=LATE_STEPS * settings.CONFIG.telemetry_step_seconds)
    if kind is None:
        word = ("No source is set: all use is unknown", "circle-question-mark", "warn")
    elif until is None or until < now - late:
        word = ("Not read lately", "octagon-alert", "bad")
    elif count:
        word = (f"{count} issue{'s' if count > 1 else ''}", "triangle-alert", "warn")
    else:
        word = ("Delivers", "circle-check", "good")
    return Delivery(cluster, kind.label if kind else "-", until, heard, devices.count(), *word)
