"""What helps against a cause of waiting: time, another offer, a smaller request. Pure."""

from apps.workloads.waiting.rules.situation import Cause

NOWHERE = frozenset({Cause.CLUSTER_SILENT, Cause.INCOMPLETE, Cause.KUEUE_SILENT, Cause.REFUSED})
"""Causes that end nowhere sooner, with another offer either."""
ALIKE = frozenset(
    {
        Cause.HELD, Cause.BUDGET, Cause.SUSPENDED, Cause.TENANT_HELD, Cause.IMAGE, Cause.VOLUME, Cause.WARNED,
        Cause.DEACTIVATED, Cause.CHECKED, Cause.SENT_BACK, Cause.NOT_TAKEN_IN,
    }
)  # fmt: skip
"""Causes that meet it with every offer: they are of the work, of its team, or of the team's one queue."""
APART = ALIKE | {Cause.CLOSED, Cause.TOO_LARGE, Cause.FITS_NO_NODE, Cause.ON_ITS_WAY}
"""Causes that no place in the queue and no holder has anything to do with."""
SHRINKS = frozenset(
    {
        Cause.TOO_LARGE, Cause.RECLAIMED, Cause.PREEMPTED, Cause.QUOTA_USED, Cause.LENT, Cause.NONE_TO_LEND,
        Cause.NODE_DOWN, Cause.FRAGMENTED, Cause.NO_DEVICE, Cause.FITS_NO_NODE,
    }
)  # fmt: skip
"""Causes that a smaller request gets around."""
