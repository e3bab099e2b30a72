"""What the money of a finding is: its part of the ledger's waste, and what a week of it costs. Pure.

RULE: so far, it is what the ledger calls waste of the finding's causes in the finding's time, so that it is
the same money as on the bill; each cause of a time belongs to one finding. A week is what the coming seven
days would waste at the present price, or less where the work stops of itself before; all findings of one
workload together take no more of it than it costs.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from apps.metering.billing.rules.effective_split import RECOVERABLE
from apps.metering.specs import FindingKind
from apps.workloads.hours_specs import WorkingHours

CAUSES: Mapping[FindingKind, frozenset[str]] = {
    FindingKind.ZOMBIE: frozenset({"zombie"}),
    FindingKind.HOARDER: frozenset({"hoarded"}),
    FindingKind.EVASION: frozenset({"hoarded"}),
    FindingKind.FORGOTTEN: frozenset({"hoarded"}),
    FindingKind.CRASH_LOOP: frozenset({"crashing"}),
    FindingKind.OVERSIZED: frozenset({"oversized"}),
    FindingKind.WRONG_SHARING_MODE: frozenset({"oversized"}),
    FindingKind.SCALE_TO_ZERO: frozenset({"idle"}),
    FindingKind.DATA_STARVED: frozenset({"idle", "partly"}),
}
"""The causes of waste that are a finding's, in the order in which they take of a workload's cost. The other
kinds waste nothing.
"""
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
RECOVERED = tuple(kind for kind, causes in CAUSES.items() if causes <= set(RECOVERABLE))
"""The kinds whose waste is recoverable; of the others it is inefficiency."""


def in_order(kinds: Iterable[FindingKind]) -> list[FindingKind]:
    """Those that take first come first."""
    places = {kind: place for place, kind in enumerate(CAUSES)}
    return sorted(kinds, key=lambda kind: (places.get(kind, len(places)), kind))


def hours_ahead(stops_at: datetime | None, hours: WorkingHours | None, now: datetime) -> Decimal:
    """The hours of the coming week in which it still runs: to the end of its own lease, if it has one, and
    in its working hours alone, if it has any.
    """
    until = now + (WEEK if stops_at is None else min(WEEK, max(timedelta(0), stops_at - now)))
    left = hours.within(now, until) if hours else until - now
    return Decimal(left // timedelta(microseconds=1)) / (HOUR // timedelta(microseconds=1))


def millionths(part: Decimal) -> int:
    """A part of a device as the ledger takes it."""
    return int(part * 1_000_000)
