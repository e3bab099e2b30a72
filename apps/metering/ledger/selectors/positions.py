"""How far each cluster's ledger is rolled up. Reads only."""

from datetime import datetime
from typing import NamedTuple

from apps.cluster.request_cache import memo
from apps.metering.models import RollPosition
from apps.prepared import Prepared


def pruned_until() -> datetime | None:
    """Before this moment only roll-ups of hours and days are kept; None: all are."""
    return max((each.pruned_until for each in rolled() if each.pruned_until), default=None)


class Rolled(NamedTuple):
    """A cluster's roll-ups are of [since, until), before `pruned_until` of hours and days alone."""

    since: datetime
    until: datetime
    pruned_until: datetime | None


def rolled() -> list[Rolled]:
    """How far each cluster's ledger is rolled up."""
    return memo(("rolled",), lambda: [Rolled(*each) for each in _ROLLED()])


_ROLLED = Prepared(lambda: RollPosition.objects.values_list(*Rolled._fields))
