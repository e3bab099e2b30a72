"""Whether an allocation could have held its device for longer: who else did, and was it there. Reads only."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from apps.metering.allocations.selectors import allocations
from apps.metering.ledger.rules.segments import Breach, BreachKind
from apps.metering.ledger.selectors import facts
from apps.metering.models import Allocation
from apps.metering.specs import Origin

_NAMED = 3
"""So many holders are named; a pool may have many."""


def hindrances(row: Allocation, begins: datetime, ends: datetime) -> Iterator[str]:
    """Why the allocation cannot have held its device in [begins, ends), in which it counts as not holding it.

    RULE: whatever the ledger could not balance then, and balances without it: time of another holder of the
    same device, of a pool that was full, of a GPU or slice that was not there. Of cores the ledger knows
    nothing.
    """
    if row.is_cores:
        return
    for each in facts.breaches_with(row, begins, ends):
        since, until = facts.moment(each.begins), facts.moment(each.ends)
        when = f"from {since:%Y-%m-%d %H:%M:%S} to {_moment(until, since)} UTC"
        absent = each.kind == BreachKind.ABSENT
        yield f"{row.device} was not there {when}." if absent else _held(row, each, when)


def _held(row: Allocation, breach: Breach, when: str) -> str:
    begins, ends = facts.moment(breach.begins), facts.moment(breach.ends)
    gpu = facts.gpu_of(row)
    on_it = Q(gpu=gpu) | Q(gpu="", device_uuid=gpu) | Q(device=row.device)
    rows = Allocation.objects.filter(on_it, cluster=row.cluster).exclude(pk=row.pk)
    others = list(allocations.between(rows.select_related("tenant", "workload"), begins, ends))
    # The numbers of a pool's shares are each pod's own. Instances that overlap take from each other.
    is_pool = allocations.PLUGIN_MARK in row.device
    same = [] if is_pool else [each for each in others if each.device == row.device]
    names = sorted(_name(each) for each in same or others)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED]) or 'A claim of no tenant'}{more} held {row.device} {when}."


def _name(row: Allocation) -> str:
    made = row.root or row.claim_uid if row.origin == Origin.KUBECTL else row.work.slug
    return f"{made} of {row.tenant.slug}"


def _moment(at: datetime, since: datetime) -> str:
    """Without the day where it is the same."""
    return f"{at:%H:%M:%S}" if at.date() == since.date() else f"{at:%Y-%m-%d %H:%M:%S}"
