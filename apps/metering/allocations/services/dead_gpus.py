"""GPUs that died of a fatal XID: found in what telemetry tells, and reported to the operator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.segments import ChangeKind, State
from apps.metering.ledger.selectors import facts
from apps.metering.models import Device
from apps.metering.specs import TroubleKind
from apps.metering.telemetry.rules import xids
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.selectors.last_xids import last_xids, told_since
from apps.metering.telemetry.services import issues

MISSED = timedelta(days=7)
"""How long one that is gone from the cluster stays the operator's."""


@dataclass(frozen=True)
class Dead:
    """A GPU, the XID that it died of, and when: never before what was last known of its health."""

    gpu: str
    xid: int
    since: datetime


def found(cluster: Cluster, known: Mapping[str, State], *, now: datetime) -> dict[str, Dead]:
    """Every dead GPU by its name on the ledger, those that a device plugin hides included.

    RULE: `xids.now_dead_of`. One that is gone and silent is dead for a week more.
    """
    told = last_xids(cluster, now=now)
    dead = {}
    for gpu in sorted(told.keys() | known.keys()):
        state, last = known.get(gpu, State()), told.get(gpu, {})
        xid = xids.now_dead_of(state.xid, last.values())
        if xid and (last or state.present or facts.micros(now - MISSED) < state.since):
            dead[gpu] = Dead(gpu, xid, _since(state, xid, last, now))
    return dead


def report(cluster: Cluster, dead: Mapping[str, Dead], *, now: datetime) -> None:
    """Open an issue for each node with dead GPUs, and close those of nodes that have none any more."""
    told = issues.report(cluster, _troubles(cluster, dead), now=now)
    issues.resolve(cluster, [TroubleKind.DEAD_GPU], still=told, now=now)


def _since(state: State, xid: int, last: Mapping[int, int], now: datetime) -> datetime:
    earliest = facts.moment(max(state.since, state.changed_at(ChangeKind.UNHEALTHY)))
    return earliest if state.xid == xid else min(now, max(earliest, told_since(last, xid, now=now)))


def _troubles(cluster: Cluster, dead: Mapping[str, Dead]) -> Iterator[Trouble]:
    rows = Device.objects.filter(cluster=cluster, uuid__in=list(dead)).order_by("last_seen_at")
    by_node: dict[str, list[Dead]] = {}
    for gpu, node in dict(rows.values_list("uuid", "node")).items():
        by_node.setdefault(node, []).append(dead[gpu])
    for node, those in sorted(by_node.items()):
        which = "; ".join(f"{each.gpu}: {xids.words(each.xid)}" for each in those)
        cures = dict.fromkeys(xids.XIDS[each.xid].cure for each in those)
        yield Trouble(
            TroubleKind.DEAD_GPU,
            node,
            f"{which}. On {node}: {'; '.join(cures)}. It is over once the exporter, restarted with the"
            " driver, says XID 0. Whose work ended with it gets its last hour back; who holds on pays nothing"
            " from then on.",
        )
