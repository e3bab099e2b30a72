"""Which GPUs are dead, as the facts of hardware say. Reads only."""

from collections.abc import Iterable

from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.models import HardwareFact

_KINDS = (ChangeKind.UNHEALTHY, ChangeKind.HEALTHY)


def dead_among(gpus: Iterable[str]) -> frozenset[str]:
    """Those of these GPUs whose last word of health carries a fatal XID."""
    rows = HardwareFact.objects.filter(kind__in=_KINDS, gpu__in=set(gpus)).order_by("at", "pk")
    last = dict(rows.values_list("gpu", "value"))
    return frozenset(gpu for gpu, value in last.items() if value.get("xid"))
