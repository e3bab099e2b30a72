"""How a preemption shows in a workload's story. Pure."""

from datetime import timedelta

PREEMPTED = "Preempted"
"""Kueue's reason of the condition Evicted, as a workload's story keeps it."""
SEEN_WITHIN = timedelta(minutes=1)
