"""What is wrong with telemetry, for the operator: opened once, counted while it lasts, then resolved."""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import F, UUIDField

from apps.cluster.models import Cluster
from apps.metering.models import TelemetryIssue
from apps.metering.telemetry.rules.sources.limits import KEPT_ASIDE
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.prepared import Prepared
from apps.web.streams import events

Which = tuple[str, str]


def report(cluster: Cluster, troubles: Iterable[Trouble], *, now: datetime) -> set[Which]:
    """Open an issue per (kind, node), or count up the open one with the newest words; answers which."""
    found = {(each.kind, each.node): each for each in troubles}
    for (kind, node), each in found.items():
        words = {"message": each.message, "last_at": now}
        if each.kept_aside:
            words["kept_aside"] = each.kept_aside[:KEPT_ASIDE]
        rows = TelemetryIssue.objects.filter(cluster=cluster, kind=kind, node=node, resolved_at=None)
        if not rows.update(count=F("count") + 1, **words):
            TelemetryIssue.objects.create(cluster=cluster, kind=kind, node=node, created_at=now, **words)
            _tell()
    return set(found)


def resolve(cluster: Cluster, kinds: Iterable[str], *, still: Collection[Which], now: datetime) -> None:
    """Close the open issues of these kinds that are not among what is `still` so."""
    chosen = set(kinds)
    over = [pk for pk, *which in _OPEN(cluster.pk) if which[0] in chosen and tuple(which) not in still]
    if over and TelemetryIssue.objects.filter(pk__in=over).update(resolved_at=now):
        _tell()


_OPEN = Prepared(
    lambda cluster: TelemetryIssue.objects.filter(cluster=cluster, resolved_at=None).values_list(
        "pk", "kind", "node"
    ),
    UUIDField(),
)


def forget(before: datetime) -> int:
    """Removes what was over before then: a closed issue is of use as long as the samples it tells of."""
    return TelemetryIssue.objects.filter(resolved_at__lt=before).delete()[0]


def _tell() -> None:
    events.publish(["console"], part="telemetry needs", data={"type": "telemetry.changed"})
