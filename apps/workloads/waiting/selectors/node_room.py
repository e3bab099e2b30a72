"""What Kueue let in and fits no node: since when, and what would free one. Reads only."""

from dataclasses import replace
from datetime import datetime
from itertools import chain
from uuid import UUID

from apps.accounts.specs import Actor
from apps.cluster.mirror.rules.hardware import Holder
from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.mirror.selectors import inventory
from apps.cluster.objects.conditions import find
from apps.quotas.catalogue.selectors import stock
from apps.quotas.specs import Mechanism
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.status import scheduling
from apps.workloads.waiting.rules import node_room
from apps.workloads.waiting.rules.node_room import Fleet, Nearest, NodeHolder, Unplaced

_TOLD = (
    "name", "tenant__slug", "suspended", "stops_at", "idle_stops_at", "hours_due_at", "gpu_idle_since",
)  # fmt: skip
"""What is read of the work that has devices."""


def unplaced(actor: Actor, row: Workload) -> Unplaced | None:
    """None of what waits for nothing, or for quota."""
    if not scheduling.is_unschedulable(row.conditions):
        return None
    return Unplaced(since(row), len({pod.get("pod") for pod in row.placement}), _nearest(actor, row))


def since(row: Workload) -> datetime:
    """Since when the scheduler finds no node for it."""
    refused = find(row.conditions, scheduling.POD_SCHEDULED)
    return moment(refused.get("since") if refused else None) or row.asked_at


def _nearest(actor: Actor, row: Workload) -> Nearest | None:
    """RULE: only work that the reader sees is named, and only then the node; the rest is counted."""
    offer, cluster = row.offer, row.cluster
    if offer.is_cores or offer.mechanism == Mechanism.DEVICE_PLUGIN:
        return None
    claims, owners = inventory.held_devices(cluster), inventory.workloads_of_claims(cluster)
    held = {
        key: {owners.get(claim.claim_uid) or claim.claim_uid for claim in each}
        for key, each in claims.items()
    }
    holding = Workload.objects.filter(pk__in=set(owners.values())).select_related("tenant")
    rows = {str(each.pk): each for each in holding.only(*_TOLD)}
    fleet = Fleet(
        own=stock.devices_by_offer(cluster)[offer.pk],
        model=[device for device in inventory.devices(cluster) if device.model == offer.flavor.model],
        held=held,
        working=frozenset(node.name for node in inventory.nodes(cluster) if node.schedulable),
    )
    ends = {pk: each.first_stop for pk, each in rows.items()}
    found = node_room.nearest(fleet, reading.spec_of(row).per_pod, ends)
    if found is None:
        return None
    seen = reading.workloads_for(actor).filter(pk__in=[UUID(each) for each in _ours(found, rows)])
    known = {str(pk) for pk in seen.values_list("pk", flat=True)}
    every = chain.from_iterable(claims.values()) if actor.sees_everything else ()
    outside = {claim.claim_uid: claim for claim in every}
    holders = [_holder(each, rows.get(str(each.name)), known, outside) for each in found.holders]
    is_known = actor.sees_everything or any(each.name for each in holders)
    return replace(found, node=found.node if is_known else "", holders=_merged(holders))


def _ours(found: Nearest, rows: dict[str, Workload]) -> list[str]:
    return [str(each.name) for each in found.holders if each.name in rows]


def _holder(
    each: NodeHolder, row: Workload | None, known: set[str], outside: dict[str, Holder]
) -> NodeHolder:
    """With the name that the reader may be told."""
    if row is None:
        claim = outside.get(str(each.name))
        pods = ", ".join(claim.pods) if claim else ""
        return replace(each, name=f"{pods} in {claim.namespace}" if claim and pods else None)
    name = f"{row.name} of {row.tenant.slug}" if str(row.pk) in known else None
    return replace(each, name=name, idle_since=row.gpu_idle_since if name else None)


def _merged(holders: list[NodeHolder]) -> tuple[NodeHolder, ...]:
    """What is not named counts as one, until the last of it ends."""
    hidden = [each for each in holders if each.name is None]
    named = [each for each in holders if each.name is not None]
    if not hidden:
        return tuple(named)
    ends = [each.until for each in hidden]
    latest = None if None in ends else max(filter(None, ends))
    return (*named, NodeHolder(None, sum(each.count for each in hidden), latest))
