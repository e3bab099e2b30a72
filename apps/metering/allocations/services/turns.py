"""Who holds a device, or a part of a board, one after the other: ends that were seen late."""

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import CharField, DateTimeField, Q, UUIDField

from apps.cluster.mirror.rules import boards
from apps.cluster.mirror.rules.hardware import DeviceView
from apps.cluster.models import Cluster
from apps.metering.allocations.rules import claim_intervals
from apps.metering.allocations.rules.claim_intervals import Fact
from apps.metering.ledger.selectors import facts as ledger_facts
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation
from apps.metering.specs import Origin
from apps.prepared import Prepared


def are_one(one: str, other: str, devices: Mapping[str, DeviceView]) -> bool:
    """Whether nobody can have one of these devices while somebody has the other: it is the same, or their
    board is cut on demand and has no room for both.
    """
    if one == other:
        return True
    return one in devices and other in devices and boards.exclude(devices[one], devices[other])


def end_before_the_next(
    cluster: Cluster, changed: Collection[Allocation], devices: Mapping[str, DeviceView]
) -> set[UUID]:
    """Correct the ends on devices of which somebody's time began or ended in this look, and on those that
    exclude them; answers whose time is less. What kubectl holds ends by the facts of its GPU.
    """
    if not changed:
        return set()
    changing = {row.device for row in changed}
    rows = [
        row
        for gpu, at in _since(changed).items()
        for row in _NEIGHBOURS(cluster.pk, gpu, at)
        if any(are_one(row.device, device, devices) for device in changing)
    ]
    held = {(row.claim_uid, row.device): row for row in rows}
    early = claim_intervals.before_the_next(
        (Fact(*key, row.node, row.started_at, row.ended_at) for key, row in held.items()),
        lambda one, other: are_one(one, other, devices),
    )
    cut = ((held[fact.claim_uid, fact.device], fact.ended_at) for fact in early)
    ends = [(row, ended_at) for row, ended_at in cut if row.origin == Origin.ALLOTMENT]
    for row, ended_at in ends:
        Allocation.objects.filter(pk=row.pk).update(ended_at=ended_at)
    spans = [(ledger_facts.gpu_of(row), at, row.ended_at) for row, at in ends if at and row.ended_at]
    invalidation.mark(cluster, spans)
    return {row.workload_id for row, _ in ends if row.workload_id}


def _since(changed: Collection[Allocation]) -> dict[str, datetime]:
    """By GPU when the first of these began: of one device several may have come and gone since the last look.

    RULE: what ends after a month says nothing of other GPUs, of which all that came and went in that month
    would be read.
    """
    since: dict[str, datetime] = {}
    for row in changed:
        since[row.gpu] = min(row.started_at, since.get(row.gpu, row.started_at))
    return since


_NEIGHBOURS = Prepared(
    lambda cluster, gpu, since: Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=since),
        cluster=cluster,
        gpu=gpu,
        in_shares=False,
    ),
    UUIDField(),
    CharField(),
    DateTimeField(),
)
